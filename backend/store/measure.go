package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"statebench.dev/bench/internal/world"
)

// What Measure sends beside small requests.
const (
	measureSmall    = 1 << 10 // bytes of a small object: its time is that to the first byte
	measureLarge    = 4 << 20 // bytes of a large one
	measureParallel = 4       // large ones at a time, for the bandwidth of all connections together
	measureRounds   = 8       // of large ones
)

// Sample is how long requests of one kind took, in ascending order.
type Sample []time.Duration

// Quantile returns the q-quantile, 0 <= q <= 1, of a sample that is not empty.
func (s Sample) Quantile(q float64) time.Duration { return s[int(math.Round(q*float64(len(s)-1)))] }

// FirstByte fits a log-normal distribution to the median and the 95th percentile.
func (s Sample) FirstByte() FirstByte {
	if len(s) == 0 || s.Quantile(0.5) <= 0 {
		return FirstByte{}
	}
	const z95 = 1.6448536269514722
	median := s.Quantile(0.5)
	return FirstByte{Median: median, Sigma: math.Log(float64(s.Quantile(0.95))/float64(median)) / z95}
}

// Measurement is what Measure found.
type Measurement struct {
	// Requests is how many were made in all.
	Requests int
	// Put, Get, Stat, List and Delete are those of objects of 1 KiB.
	Put, Get, Stat, List, Delete Sample
	// PerByte is the time of one more byte on one connection in seconds, WorkerBandwidth what four connections moved together in
	// bytes a second.
	PerByte, WorkerBandwidth float64
}

// Latency is the cost model that the measurement suggests. It has no limits of requests a second: to find those the store
// would have to be overloaded.
func (m Measurement) Latency() Latency {
	return Latency{
		Put: m.Put.FirstByte(), Get: m.Get.FirstByte(), Stat: m.Stat.FirstByte(), List: m.List.FirstByte(), Delete: m.Delete.FirstByte(),
		PerByte: m.PerByte, WorkerBandwidth: m.WorkerBandwidth,
	}
}

// Measure times requests to b, n of each kind for objects of 1 KiB and some dozens for objects of 4 MiB, one after the
// other but for a part of the large ones. It deletes what it wrote, which lies under calibrate/; n is at least 10.
func Measure(ctx context.Context, w world.World, b Bucket, n int) (Measurement, error) {
	if n < 10 {
		return Measurement{}, fmt.Errorf("%d requests of a kind are too few to fit anything: 10 at least", n)
	}
	p := &prober{w: w, b: b}
	err := p.small(ctx, n)
	if err == nil {
		err = p.large(ctx)
	}
	return p.m, errors.Join(err, p.clean(ctx))
}

// prober makes the requests of a measurement.
type prober struct {
	w    world.World
	b    Bucket
	m    Measurement
	keys []string // written and not deleted
}

// timed makes one request and adds its time to a sample.
func (p *prober) timed(into *Sample, f func() error) error {
	from := p.w.Now()
	err := f()
	*into = append(*into, p.w.Now()-from)
	p.m.Requests++
	return err
}

func (p *prober) put(ctx context.Context, into *Sample, key string, body []byte) error {
	p.keys = append(p.keys, key)
	return p.timed(into, func() error { return p.b.Put(ctx, key, body, PutOptions{IfNotExist: true}) })
}

// small measures every operation. Operations take turns, so that a slow moment of the store hits all of them.
func (p *prober) small(ctx context.Context, n int) error {
	body := incompressible(measureSmall)
	var warm Sample
	for i := range n + 2 {
		m := &p.m
		put, get, stat, list, del := &m.Put, &m.Get, &m.Stat, &m.List, &m.Delete
		if i < 2 { // connections are opened
			put, get, stat, list, del = &warm, &warm, &warm, &warm, &warm
		}
		key := fmt.Sprintf("calibrate/small/%d", i)
		err := p.put(ctx, put, key, body)
		if err == nil {
			err = p.timed(get, func() error { _, err := p.b.Get(ctx, key); return err })
		}
		if err == nil {
			err = p.timed(stat, func() error { _, err := p.b.Stat(ctx, key); return err })
		}
		if err == nil {
			err = p.timed(list, func() error {
				for _, err := range p.b.List(ctx, key, "") {
					return err
				}
				return nil
			})
		}
		if err == nil {
			err = p.timed(del, func() error { return p.b.Delete(ctx, []string{key})[0].Err })
		}
		if err != nil {
			return fmt.Errorf("measure: %w", err)
		}
		p.keys = p.keys[:0]
	}
	for _, s := range []*Sample{&p.m.Put, &p.m.Get, &p.m.Stat, &p.m.List, &p.m.Delete} {
		slices.Sort(*s)
	}
	return nil
}

// large measures what bytes cost.
func (p *prober) large(ctx context.Context) error {
	body := incompressible(measureLarge)
	var puts, gets Sample
	for i := range measureRounds {
		key := fmt.Sprintf("calibrate/large/%d", i)
		if err := p.put(ctx, &puts, key, body); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
		if err := p.timed(&gets, func() error { _, err := p.b.Get(ctx, key); return err }); err != nil {
			return fmt.Errorf("measure: %w", err)
		}
	}
	slices.Sort(puts)
	slices.Sort(gets)
	// The slower direction counts: the model has one bandwidth for both.
	for _, x := range [][2]Sample{{puts, p.m.Put}, {gets, p.m.Get}} {
		more := x[0].Quantile(0.5) - x[1].Quantile(0.5)
		p.m.PerByte = max(p.m.PerByte, more.Seconds()/(measureLarge-measureSmall))
	}
	return p.parallel(ctx, body)
}

// parallel measures what several connections move together.
func (p *prober) parallel(ctx context.Context, body []byte) error {
	g := world.NewGroup(p.w)
	from := p.w.Now()
	for c := range measureParallel {
		for i := range measureRounds {
			p.keys = append(p.keys, fmt.Sprintf("calibrate/parallel/%d/%d", c, i))
		}
		g.Go(ctx, fmt.Sprintf("measure-%d", c), func(ctx context.Context) error {
			for i := range measureRounds {
				if err := p.b.Put(ctx, fmt.Sprintf("calibrate/parallel/%d/%d", c, i), body, PutOptions{IfNotExist: true}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(ctx); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	p.m.Requests += measureParallel * measureRounds
	if took := (p.w.Now() - from).Seconds(); took > 0 {
		p.m.WorkerBandwidth = float64(len(body)) * measureParallel * measureRounds / took
	}
	return nil
}

// clean deletes what is left.
func (p *prober) clean(ctx context.Context) error {
	var errs []error
	for _, d := range p.b.Delete(ctx, p.keys) {
		errs = append(errs, d.Err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete what was measured with: %w", err)
	}
	return nil
}

// incompressible returns n bytes that no store makes smaller; the same each time.
func incompressible(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
