package workloads

import "math"

// keyOptions are the keys of a synthetic source as they are written.
type keyOptions struct {
	Count int64   `json:"count" about:"keys in all, at least one a partition"`
	Pick  string  `json:"pick" about:"uniform or zipf"`
	S     float64 `json:"s" about:"exponent of zipf"`
	Fill  bool    `json:"fill,omitempty" about:"the first records visit every key once, in order, before any is picked"`
	// FillPace speeds the fill up, so that a large state is there soon at a rate that it can then be watched at.
	FillPace float64        `json:"fillPace,omitempty" about:"with fill and a rate: how many times as fast as the rate the first records come; 1 where absent"`
	Hotset   *hotsetOptions `json:"hotset,omitempty"`
}

type hotsetOptions struct {
	Share     share `json:"share" about:"part of the keys by which the popularity shifts"`
	MoveEvery span  `json:"moveEvery" about:"event time between two shifts"`
}

// payloadOptions are the payloads of a synthetic source as they are written.
type payloadOptions struct {
	Size         size  `json:"size" about:"bytes of a payload"`
	Compressible share `json:"compressible" about:"part of a payload that is one byte repeated"`
}

// The values of Pick.
const (
	pickUniform = "uniform"
	pickZipf    = "zipf"
)

// check calls bad for each thing that may be wrong with the keys and the partitions that they are in.
func (k *keyOptions) check(partitions int, bad func(is bool, format string, args ...any)) {
	bad(partitions < 1 || partitions > 1<<15, "partitions is %d, must be from 1 to 32768", partitions)
	bad(k.Count < int64(partitions) || k.Count > math.MaxInt32, "keys.count is %d, must be from partitions (%d), since every key belongs to one, to %d",
		k.Count, partitions, math.MaxInt32)
	bad(k.Pick != pickUniform && k.Pick != pickZipf, "keys.pick is %q, must be uniform or zipf", k.Pick)
	bad(!(k.S > 0 && k.S <= 10), "keys.s is %v, must be above 0 and at most 10", k.S)
	bad(k.FillPace != 0 && !(k.FillPace >= 1 && k.FillPace <= 1000), "keys.fillPace is %v, must be from 1 to 1000", k.FillPace)
	bad(k.FillPace != 0 && !k.Fill, "keys.fillPace needs fill: true, it is the pace of these records")
	if h := k.Hotset; h != nil {
		bad(k.Pick != pickZipf, "keys.hotset needs pick: zipf, with uniform keys none is hot")
		bad(h.MoveEvery.Duration <= 0, "keys.hotset.moveEvery must be positive")
	}
}

func (p *payloadOptions) check(bad func(is bool, format string, args ...any)) {
	bad(p.Size.Bytes < 1 || p.Size.Bytes > 16<<20, "values.size is %v, must be from 1B to 16MiB", p.Size)
}

// generated is what a generator of such keys and payloads needs.
func generated(e Env, partitions int, k keyOptions, p payloadOptions) generatorOptions {
	g := generatorOptions{seed: e.Seed, partitions: partitions, keys: k.Count, size: int(p.Size.Bytes),
		compress: float64(p.Compressible.Share), rate: e.Rate, total: e.Total, fill: k.Fill, pace: max(1, k.FillPace)}
	if k.Pick == pickZipf {
		g.zipf = k.S
	}
	if h := k.Hotset; h != nil {
		g.hotShare, g.hotEvery = float64(h.Share.Share), int64(h.MoveEvery.Duration)
	}
	return g
}
