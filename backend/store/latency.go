package store

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Latency is the cost model of a store. The zero value costs nothing and adds no wait at all.
//
// A request takes First of its kind, times a log-normal factor with median 1, plus its bytes times PerByte, plus its turn
// on the shared Bandwidth. The effect lies in the middle of the first-byte time; the bytes of a put travel before
// it, those of a get after it.
type Latency struct {
	// Put, Get, Stat, List (each page of 1,000 entries) and Delete (each 1,000 keys) are the median times to the first byte.
	Put, Get, Stat, List, Delete time.Duration
	// Sigma is the standard deviation of the logarithm of the factor; 0 means no variation, 0.5 a p99 of 3.2 times the median.
	Sigma float64
	// PerByte is the time for one byte on one connection, in seconds.
	PerByte float64
	// Bandwidth is what all requests together may move, in bytes a second; 0 means no limit. Requests take turns in order of arrival.
	Bandwidth float64
	// WriteRate is how many puts, bulk deletes and aborts a second the store takes, and ReadRate how many other requests,
	// before it answers ErrThrottled, each with a burst of one second; 0 means no limit.
	WriteRate, ReadRate float64
}

// Zero tells whether the model adds nothing.
func (l Latency) Zero() bool { return l == Latency{} }

type latent struct {
	in    Bucket
	w     world.World
	model Latency
	mu    struct {
		*world.Mutex
		rand        *rand.Rand
		free        time.Duration // when the shared bandwidth is free again
		write, read bucketLevel
	}
}

// bucketLevel is a leaky bucket: the requests that count against the rate at instant at.
type bucketLevel struct {
	level float64
	at    time.Duration
}

// take tells whether one more request fits into rate a second with a burst of one second.
func (b *bucketLevel) take(now time.Duration, rate float64) bool {
	if rate <= 0 {
		return true
	}
	b.level = max(0, b.level-(now-b.at).Seconds()*rate)
	b.at = now
	if b.level+1 > max(rate, 1) {
		return false
	}
	b.level++
	return true
}

var _ Bucket = (*latent)(nil)

// WithLatencyModel returns b with the waits and limits of model, in both worlds. Variation is drawn from w's stream
// "store/latency". A zero model returns b itself.
func WithLatencyModel(b Bucket, w world.World, model Latency) Bucket {
	if model.Zero() {
		return b
	}
	l := &latent{in: b, w: w, model: model}
	l.mu.Mutex = world.NewMutex(w)
	l.mu.rand = w.Rand("store/latency")
	return l
}

// first draws the time to the first byte.
func (l *latent) first(median time.Duration) time.Duration {
	if l.model.Sigma <= 0 || median <= 0 {
		return median
	}
	l.mu.Lock()
	z := l.mu.rand.NormFloat64()
	l.mu.Unlock()
	return time.Duration(float64(median) * math.Exp(l.model.Sigma*z))
}

// transfer is the time that n bytes take from now on: on the own connection or until the shared bandwidth had its turn
// for them, whichever is longer.
func (l *latent) transfer(n int64) time.Duration {
	own := time.Duration(math.Round(float64(n) * l.model.PerByte * float64(time.Second)))
	if l.model.Bandwidth <= 0 || n == 0 {
		return own
	}
	now := l.w.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.free = max(l.mu.free, now) + time.Duration(math.Round(float64(n)/l.model.Bandwidth*float64(time.Second)))
	return max(own, l.mu.free-now)
}

// admit applies the rate limit to one request.
func (l *latent) admit(write bool) error {
	now := l.w.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	level, rate := &l.mu.read, l.model.ReadRate
	if write {
		level, rate = &l.mu.write, l.model.WriteRate
	}
	if !level.take(now, rate) {
		return fmt.Errorf("more than %g requests a second: %w", rate, ErrThrottled)
	}
	return nil
}

func (l *latent) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctxErr(ctx)
	}
	return l.w.Sleep(ctx, d)
}

// before waits for the way to the store; the effect cannot have happened when it ends early.
func (l *latent) before(ctx context.Context, write bool, d time.Duration) error {
	if err := l.wait(ctx, d); err != nil {
		return err
	}
	return l.admit(write)
}

func (l *latent) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	out := outcomeOf(ctx)
	out.report(key, history.AppliedNo)
	first := l.first(l.model.Put)
	if err := l.before(ctx, true, first/2+l.transfer(int64(len(body)))); err != nil {
		return err
	}
	out.report(key, history.AppliedUnknown)
	err := l.in.Put(ctx, key, body, o)
	out.settle(key, err)
	// A cancel on the way back leaves the caller with an answer that is not one: the outcome is unknown to it.
	if werr := l.wait(ctx, first-first/2); werr != nil {
		return werr
	}
	return err
}

func (l *latent) Get(ctx context.Context, key string) ([]byte, error) {
	return l.get(ctx, func() ([]byte, error) { return l.in.Get(ctx, key) })
}

func (l *latent) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return l.get(ctx, func() ([]byte, error) { return l.in.GetRange(ctx, key, off, n) })
}

func (l *latent) get(ctx context.Context, get func() ([]byte, error)) ([]byte, error) {
	first := l.first(l.model.Get)
	if err := l.before(ctx, false, first/2); err != nil {
		return nil, err
	}
	body, err := get()
	if werr := l.wait(ctx, first-first/2+l.transfer(int64(len(body)))); werr != nil {
		return nil, werr
	}
	return body, err
}

func (l *latent) Stat(ctx context.Context, key string) (Attributes, error) {
	first := l.first(l.model.Stat)
	if err := l.before(ctx, false, first/2); err != nil {
		return Attributes{}, err
	}
	a, err := l.in.Stat(ctx, key)
	if werr := l.wait(ctx, first-first/2); werr != nil {
		return Attributes{}, werr
	}
	return a, err
}

func (l *latent) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		if err := l.before(ctx, false, l.first(l.model.List)); err != nil {
			yield(Attributes{}, err)
			return
		}
		n := 0
		for a, err := range l.in.List(ctx, prefix, startAfter) {
			if n++; n > memPage {
				n = 1
				if werr := l.before(ctx, false, l.first(l.model.List)); werr != nil {
					yield(Attributes{}, werr)
					return
				}
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

func (l *latent) Delete(ctx context.Context, keys []string) []Deleted {
	out := outcomeOf(ctx)
	answers := make([]Deleted, 0, len(keys))
	for len(keys) > 0 {
		part := keys[:min(len(keys), memPage)]
		keys = keys[len(part):]
		answers = append(answers, l.deletePart(ctx, out, part)...)
	}
	return answers
}

func (l *latent) deletePart(ctx context.Context, out *outcome, keys []string) []Deleted {
	first := l.first(l.model.Delete)
	for _, key := range keys {
		out.report(key, history.AppliedNo)
	}
	if err := l.before(ctx, true, first/2); err != nil {
		return deletedAll(keys, err)
	}
	for _, key := range keys {
		out.report(key, history.AppliedUnknown)
	}
	answers := l.in.Delete(ctx, keys)
	for _, d := range answers {
		out.settle(d.Key, d.Err)
	}
	if err := l.wait(ctx, first-first/2); err != nil {
		return deletedAll(keys, err)
	}
	return answers
}

// deletedAll is the same answer for each key.
func deletedAll(keys []string, err error) []Deleted {
	out := make([]Deleted, len(keys))
	for i, key := range keys {
		out[i] = Deleted{Key: key, Err: err}
	}
	return out
}

func (l *latent) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	if err := l.before(ctx, false, l.first(l.model.List)); err != nil {
		return nil, err
	}
	return l.in.Uploads(ctx, prefix)
}

func (l *latent) AbortUpload(ctx context.Context, u Upload) error {
	if err := l.before(ctx, true, l.first(l.model.Delete)); err != nil {
		return err
	}
	return l.in.AbortUpload(ctx, u)
}

func (l *latent) Close() error { return l.in.Close() }
