package run

import (
	"math"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/plan"
)

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// latencyOf is the cost model that a profile describes.
func latencyOf(p plan.Profile) store.Latency {
	l := store.Latency{
		Put: firstByte(p.Put), Get: firstByte(p.Get), Stat: firstByte(p.Stat), List: firstByte(p.List), Delete: firstByte(p.Delete),
		Bandwidth: float64(p.Bandwidth.Store), WorkerBandwidth: float64(p.Bandwidth.Worker),
		WriteRate: float64(p.Requests.Write), ReadRate: float64(p.Requests.Read),
	}
	if c := p.Bandwidth.Connection; c > 0 {
		l.PerByte = 1 / float64(c)
	}
	return l
}

func firstByte(f plan.FirstByte) store.FirstByte {
	if f.P99 <= f.P50 {
		return store.FirstByte{Median: plan.D(f.P50)}
	}
	return store.FirstByte{Median: plan.D(f.P50), Sigma: math.Log(float64(f.P99)/float64(f.P50)) / z99}
}
