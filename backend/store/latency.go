package store

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// FirstByte is how long an operation takes to its first byte: Median times a log-normal factor with median 1.
type FirstByte struct {
	Median time.Duration
	// Sigma is the standard deviation of the logarithm of the factor; 0 means no variation, 0.65 a p99 of 4.5 times the median.
	Sigma float64
}

// Latency is the cost model of a store. The zero value costs nothing and adds no wait at all.
//
// A request takes First of its kind, plus the time for its bytes: on a connection of its own, and until the worker's and
// the store's bandwidth had their turn for them, whichever is longest. The effect lies in the middle of the first-byte
// time; the bytes of a put travel before it, those of a get after it.
type Latency struct {
	// Put, Get, Stat, List (each page of 1,000 entries) and Delete (each 1,000 keys) are the times to the first byte.
	Put, Get, Stat, List, Delete FirstByte
	// PerByte is the time for one byte on one connection, in seconds.
	PerByte float64
	// Bandwidth is what all requests together may move, in bytes a second, and WorkerBandwidth those of each Info.Who; 0
	// means no limit. Requests take turns in order of arrival.
	Bandwidth, WorkerBandwidth float64
	// WriteRate is how many puts, bulk deletes and aborts a second the store takes under one prefix, and ReadRate how many
	// other requests, before it answers ErrThrottled, each with a burst of one second; 0 means no limit. A prefix is what
	// stands before the first slash of a key.
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
		rand     *rand.Rand
		free     time.Duration            // when the shared bandwidth is free again
		workers  map[string]time.Duration // the same of each worker
		prefixes map[string]*requestLevels
	}
}

// requestLevels are the requests under one prefix.
type requestLevels struct{ write, read bucketLevel }

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
	l.mu.workers, l.mu.prefixes = map[string]time.Duration{}, map[string]*requestLevels{}
	return l
}

type freeKey struct{}

// AtNoCost returns a context whose requests a latency model lets pass at once, without waits and limits.
func AtNoCost(ctx context.Context) context.Context { return context.WithValue(ctx, freeKey{}, true) }

func atNoCost(ctx context.Context) bool { return ctx.Value(freeKey{}) != nil }

// first draws the time to the first byte.
func (l *latent) first(f FirstByte) time.Duration {
	if f.Sigma <= 0 || f.Median <= 0 {
		return f.Median
	}
	l.mu.Lock()
	z := l.mu.rand.NormFloat64()
	l.mu.Unlock()
	return time.Duration(float64(f.Median) * math.Exp(f.Sigma*z))
}

// transfer is the time that n bytes of who take from now on: on the own connection or until the shared bandwidths had their
// turn for them, whichever is longest.
func (l *latent) transfer(who string, n int64) time.Duration {
	took := seconds(float64(n) * l.model.PerByte)
	if l.model.Bandwidth <= 0 && l.model.WorkerBandwidth <= 0 || n == 0 {
		return took
	}
	now := l.w.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.model.Bandwidth > 0 {
		l.mu.free = max(l.mu.free, now) + seconds(float64(n)/l.model.Bandwidth)
		took = max(took, l.mu.free-now)
	}
	if l.model.WorkerBandwidth > 0 {
		free := max(l.mu.workers[who], now) + seconds(float64(n)/l.model.WorkerBandwidth)
		l.mu.workers[who] = free
		took = max(took, free-now)
	}
	return took
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// admit applies the rate limit to one request for key.
func (l *latent) admit(write bool, key string) error {
	if l.model.WriteRate <= 0 && l.model.ReadRate <= 0 {
		return nil
	}
	now := l.w.Now()
	prefix := key[:max(0, strings.IndexByte(key, '/'))]
	l.mu.Lock()
	defer l.mu.Unlock()
	levels := l.mu.prefixes[prefix]
	if levels == nil {
		levels = &requestLevels{}
		l.mu.prefixes[prefix] = levels
	}
	level, rate := &levels.read, l.model.ReadRate
	if write {
		level, rate = &levels.write, l.model.WriteRate
	}
	if !level.take(now, rate) {
		return fmt.Errorf("more than %g requests a second under %q: %w", rate, prefix, ErrThrottled)
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
func (l *latent) before(ctx context.Context, write bool, key string, d time.Duration) error {
	if err := l.wait(ctx, d); err != nil {
		return err
	}
	return l.admit(write, key)
}

func (l *latent) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	if atNoCost(ctx) {
		return l.in.Put(ctx, key, body, o)
	}
	out := outcomeOf(ctx)
	out.report(key, history.AppliedNo)
	first := l.first(l.model.Put)
	if err := l.before(ctx, true, key, first/2+l.transfer(o.Info.over(InfoOf(ctx)).Who, int64(len(body)))); err != nil {
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
	return l.get(ctx, key, func() ([]byte, error) { return l.in.Get(ctx, key) })
}

func (l *latent) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return l.get(ctx, key, func() ([]byte, error) { return l.in.GetRange(ctx, key, off, n) })
}

func (l *latent) get(ctx context.Context, key string, get func() ([]byte, error)) ([]byte, error) {
	if atNoCost(ctx) {
		return get()
	}
	first := l.first(l.model.Get)
	if err := l.before(ctx, false, key, first/2); err != nil {
		return nil, err
	}
	body, err := get()
	if werr := l.wait(ctx, first-first/2+l.transfer(InfoOf(ctx).Who, int64(len(body)))); werr != nil {
		return nil, werr
	}
	return body, err
}

func (l *latent) Stat(ctx context.Context, key string) (Attributes, error) {
	if atNoCost(ctx) {
		return l.in.Stat(ctx, key)
	}
	first := l.first(l.model.Stat)
	if err := l.before(ctx, false, key, first/2); err != nil {
		return Attributes{}, err
	}
	a, err := l.in.Stat(ctx, key)
	if werr := l.wait(ctx, first-first/2); werr != nil {
		return Attributes{}, werr
	}
	return a, err
}

func (l *latent) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	if atNoCost(ctx) {
		return l.in.List(ctx, prefix, startAfter)
	}
	return func(yield func(Attributes, error) bool) {
		if err := l.before(ctx, false, prefix, l.first(l.model.List)); err != nil {
			yield(Attributes{}, err)
			return
		}
		n := 0
		for a, err := range l.in.List(ctx, prefix, startAfter) {
			if n++; n > memPage {
				n = 1
				if werr := l.before(ctx, false, prefix, l.first(l.model.List)); werr != nil {
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
	if atNoCost(ctx) {
		return l.in.Delete(ctx, keys)
	}
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
	if err := l.before(ctx, true, keys[0], first/2); err != nil {
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
	if atNoCost(ctx) {
		return l.in.Uploads(ctx, prefix)
	}
	if err := l.before(ctx, false, prefix, l.first(l.model.List)); err != nil {
		return nil, err
	}
	return l.in.Uploads(ctx, prefix)
}

func (l *latent) AbortUpload(ctx context.Context, u Upload) error {
	if atNoCost(ctx) {
		return l.in.AbortUpload(ctx, u)
	}
	if err := l.before(ctx, true, u.Key, l.first(l.model.Delete)); err != nil {
		return err
	}
	return l.in.AbortUpload(ctx, u)
}

func (l *latent) Close() error { return l.in.Close() }
