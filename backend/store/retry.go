package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"statebench.dev/bench/internal/world"
)

// RetryPolicy says how often and when a request is made again.
type RetryPolicy struct {
	// Attempts is the most often a request is made, the first time included; less than 1 counts as 1.
	Attempts int
	// Throttled is the same for a request that the store throttles, which is no failure but a reason to be slower; less than
	// Attempts counts as Attempts.
	Throttled int
	// Base and Cap bound the wait before attempt n+1: an equally distributed part of min(Cap, Base<<n).
	Base, Cap time.Duration
	// Timeout bounds one attempt; 0 means no bound but the context's. A bulk delete and each 1,000 entries of a listing are one attempt.
	Timeout time.Duration
	// MostAsked bounds the wait that the store may ask for; 0: it may ask for any. Beyond it the request is made again all the same.
	MostAsked time.Duration
	// Stream names the random stream of the waits; empty means "store/retry". Buckets of one world need different names.
	Stream string
}

// DefaultRetryPolicy returns the policy of a run that says nothing else: 6 attempts within about 5 s of waits, 10 s each, and
// about half a minute for what is throttled, longer only where the store asks for it, for 30 s at a time at most.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{
		Attempts: 6, Throttled: 30, Base: 100 * time.Millisecond, Cap: 2 * time.Second, Timeout: 10 * time.Second, MostAsked: 30 * time.Second,
	}
}

// RetryCounts count what a Retrying bucket did since it was made.
type RetryCounts struct {
	// Requests is the number of calls, Attempts the number of times the bucket below was asked for them.
	Requests, Attempts int64
	// Throttled, Unavailable, Ambiguous and Timeouts are failed attempts by kind.
	Throttled, Unavailable, Ambiguous, Timeouts int64
	// Resolved is the number of conditional puts whose failed answer was found to hide a success.
	Resolved int64
	// GivenUp is the number of calls that failed for want of attempts.
	GivenUp int64
	// Waited is the sum of the waits between attempts.
	Waited time.Duration
}

// Retries is the number of attempts beyond the first of each call.
func (c RetryCounts) Retries() int64 { return max(0, c.Attempts-c.Requests) }

// Retrying is a bucket that makes failed requests again. See WithRetry.
type Retrying struct {
	in Bucket
	p  RetryPolicy
	w  world.World
	mu struct {
		*world.Mutex
		rand *rand.Rand
		n    RetryCounts
	}
}

var _ Bucket = (*Retrying)(nil)

// WithRetry returns b with requests that were throttled, found the store unavailable, timed out or ended in an unknown outcome
// made again, by policy p. Once the attempts are used up the caller gets the last error with their number and the key, and
// ErrAmbiguous for a put one of whose attempts may have had its effect. Every call has its attempts for itself: what other
// calls meet takes none from it. But calls under WithBudget share how often they try again in a time: who comes late waits longer.
// Where the store says when to come again (RetryAfter) nothing is tried before, nor after the context's deadline.
//
// A conditional put that is answered with ErrPrecondition may have lost against an earlier attempt of its own: the object is
// read, and equal bytes mean that the put succeeded. Callers whose objects could be equal by chance must put a token of
// their own into the body.
func WithRetry(b Bucket, p RetryPolicy, w world.World) *Retrying {
	p.Attempts = max(p.Attempts, 1)
	if p.Stream == "" {
		p.Stream = "store/retry"
	}
	r := &Retrying{in: b, p: p, w: w}
	r.mu.Mutex = world.NewMutex(w)
	r.mu.rand = w.Rand(p.Stream)
	return r
}

// Counts returns the counters.
func (r *Retrying) Counts() RetryCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.n
}

func (r *Retrying) count(f func(*RetryCounts)) {
	r.mu.Lock()
	f(&r.mu.n)
	r.mu.Unlock()
}

// attempt makes one attempt. Its timeout, unlike the end of ctx, becomes an error of the store: late is ErrAmbiguous
// for a write and ErrUnavailable else.
func (r *Retrying) attempt(ctx context.Context, late error, f func(context.Context) error) error {
	actx := ctx
	if r.p.Timeout > 0 {
		var cancel context.CancelFunc
		actx, cancel = r.w.WithTimeout(ctx, r.p.Timeout)
		defer cancel()
	}
	err := f(actx)
	timedOut := err != nil && ctx.Err() == nil && actx.Err() != nil && !storeError(err)
	if timedOut {
		err = fmt.Errorf("no answer within %v: %w", r.p.Timeout, late)
	}
	r.count(func(n *RetryCounts) {
		n.Attempts++
		switch {
		case err == nil:
		case timedOut:
			n.Timeouts++
		case errors.Is(err, ErrThrottled):
			n.Throttled++
		case errors.Is(err, ErrAmbiguous):
			n.Ambiguous++
		case errors.Is(err, ErrUnavailable):
			n.Unavailable++
		}
	})
	return err
}

// storeError tells whether the store, not the context, is behind err.
func storeError(err error) bool {
	return retriable(err) || errors.Is(err, ErrNotExist) || errors.Is(err, ErrPrecondition) || errors.Is(err, ErrOverwrite) ||
		errors.Is(err, ErrKey) || errors.Is(err, ErrDenied) || errors.Is(err, ErrFenced) || errors.Is(err, ErrCorrupt)
}

func retriable(err error) bool {
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAmbiguous)
}

// backoff waits before attempt n+1, and at least the time that the store asked for and that the budget says; n >= 1.
func (r *Retrying) backoff(ctx context.Context, n int, asked time.Duration) error {
	most := r.p.Base
	for i := 1; i < n && most < r.p.Cap; i++ {
		most *= 2
	}
	most = min(most, r.p.Cap)
	if r.p.MostAsked > 0 {
		asked = min(asked, r.p.MostAsked)
	}
	budget := budgetOf(ctx)
	var d time.Duration
	r.count(func(c *RetryCounts) {
		if most > 0 {
			d = time.Duration(r.mu.rand.Int64N(int64(most))) + 1
		}
		if d = max(d, asked); budget != nil {
			d = budget.Take(d)
		}
		c.Waited += d
	})
	return r.w.Sleep(ctx, d)
}

// do makes attempts until f succeeds, fails for good, ctx ends or the attempts are used up. op and key are for the error.
func (r *Retrying) do(ctx context.Context, op, key string, late error, f func(context.Context) error) error {
	r.count(func(n *RetryCounts) { n.Requests++ })
	var ambiguous error
	for n := 1; ; n++ {
		err := r.attempt(ctx, late, f)
		if err == nil || settled(err) {
			if budget := budgetOf(ctx); budget != nil {
				budget.Earn()
			}
			return unknown(err, ambiguous)
		}
		if errors.Is(err, ErrAmbiguous) {
			ambiguous = err
		}
		most := r.p.Attempts
		if errors.Is(err, ErrThrottled) {
			most = max(most, r.p.Throttled)
		}
		stop := n >= most
		switch {
		case ctx.Err() != nil || !retriable(err):
			return unknown(fmt.Errorf("%s %q, attempt %d: %w", op, key, n, err), ambiguous)
		case stop:
			r.count(func(n *RetryCounts) { n.GivenUp++ })
			return unknown(fmt.Errorf("%s %q, after %d attempts: %w", op, key, n, err), ambiguous)
		}
		if werr := r.backoff(ctx, n, RetryAfter(err)); werr != nil {
			return unknown(fmt.Errorf("%s %q, waiting after attempt %d: %w (%w)", op, key, n, werr, err), ambiguous)
		}
	}
}

// settled tells whether err is an answer rather than a failure.
func settled(err error) bool {
	return !retriable(err) && (errors.Is(err, ErrNotExist) || errors.Is(err, ErrPrecondition))
}

// unknown makes err ErrAmbiguous too when an earlier attempt may have had its effect. An answer that settles the
// matter stays as it is.
func unknown(err, ambiguous error) error {
	if err == nil || ambiguous == nil || errors.Is(err, ErrAmbiguous) || errors.Is(err, ErrPrecondition) || errors.Is(err, ErrOverwrite) {
		return err
	}
	return fmt.Errorf("%w (earlier attempt: %w)", err, ambiguous)
}

// Put implements Bucket.
func (r *Retrying) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	if !o.IfNotExist {
		return r.do(ctx, "put", key, ErrAmbiguous, func(ctx context.Context) error { return r.in.Put(ctx, key, body, o) })
	}
	ctx = WithInfo(ctx, o.Info)
	err := r.do(ctx, "put", key, ErrAmbiguous, func(ctx context.Context) error {
		err := r.in.Put(ctx, key, body, o)
		if errors.Is(err, ErrPrecondition) {
			return r.resolve(ctx, key, body, err)
		}
		return err
	})
	if err == nil || !errors.Is(err, ErrAmbiguous) || ctx.Err() != nil {
		return err
	}
	// The attempts are used up; whether one of them got through can still be read.
	if rerr := r.attempt(ctx, ErrUnavailable, func(ctx context.Context) error {
		return r.resolve(ctx, key, body, fmt.Errorf("put %q: %w", key, ErrPrecondition))
	}); rerr == nil || errors.Is(rerr, ErrPrecondition) && !errors.Is(rerr, ErrNotExist) {
		return rerr
	}
	return err
}

// resolve reads key after a conditional put of body was refused with taken: nil when the object is ours, taken when it
// is not, ErrAmbiguous when it cannot be read. A reading may be damaged on the way: only three in a row that agree say that
// the object is another one.
func (r *Retrying) resolve(ctx context.Context, key string, body []byte, taken error) error {
	var before []byte
	same := 0
	for range rereads {
		there, err := r.in.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotExist): // deleted in between, so it was not ours to begin with or no longer matters
			return errors.Join(taken, err)
		case err != nil:
			return fmt.Errorf("%w: whose object it is could not be read: %w", ErrAmbiguous, err)
		case bytes.Equal(there, body):
			r.count(func(n *RetryCounts) { n.Resolved++ })
			return nil
		case same > 0 && bytes.Equal(there, before):
			same++
		default:
			before, same = there, 1
		}
		if same == agreeing {
			return taken
		}
	}
	return fmt.Errorf("%w: whose object it is could not be read: readings do not agree", ErrAmbiguous)
}

// Get implements Bucket.
func (r *Retrying) Get(ctx context.Context, key string) (body []byte, err error) {
	err = r.do(ctx, "get", key, ErrUnavailable, func(ctx context.Context) (err error) {
		body, err = r.in.Get(ctx, key)
		return err
	})
	return body, err
}

// GetRange implements Bucket.
func (r *Retrying) GetRange(ctx context.Context, key string, off, n int64) (body []byte, err error) {
	err = r.do(ctx, "get", key, ErrUnavailable, func(ctx context.Context) (err error) {
		body, err = r.in.GetRange(ctx, key, off, n)
		return err
	})
	return body, err
}

// Stat implements Bucket.
func (r *Retrying) Stat(ctx context.Context, key string) (a Attributes, err error) {
	err = r.do(ctx, "stat", key, ErrUnavailable, func(ctx context.Context) (err error) {
		a, err = r.in.Stat(ctx, key)
		return err
	})
	return a, err
}

// List implements Bucket. It asks the bucket below for 1,000 entries at a time, so that an attempt has an end.
func (r *Retrying) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		after := startAfter
		for {
			var page []Attributes
			err := r.do(ctx, "list", prefix, ErrUnavailable, func(ctx context.Context) error {
				for a, err := range r.in.List(ctx, prefix, after) {
					if err != nil {
						return err
					}
					page, after = append(page, a), a.Key
					if len(page) == memPage {
						break
					}
				}
				return nil
			})
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
			}
			if err != nil {
				yield(Attributes{}, err)
				return
			}
			if len(page) < memPage {
				return
			}
		}
	}
}

// Delete implements Bucket; only the keys that failed are asked for again.
func (r *Retrying) Delete(ctx context.Context, keys []string) []Deleted {
	answers := make([]Deleted, len(keys))
	if len(keys) == 0 {
		return answers
	}
	todo := make([]int, len(keys))
	for i := range keys {
		todo[i] = i
	}
	err := r.do(ctx, "delete", keys[0], ErrUnavailable, func(ctx context.Context) error {
		ask := make([]string, len(todo))
		for j, i := range todo {
			ask[j] = keys[i]
		}
		var left []int
		var again error
		for j, d := range r.in.Delete(ctx, ask) {
			i := todo[j]
			answers[i] = d
			if d.Err != nil && (retriable(d.Err) || !storeError(d.Err)) {
				left, again = append(left, i), d.Err
			}
		}
		todo = left
		return again
	})
	for _, i := range todo {
		if ctx.Err() == nil && !storeError(answers[i].Err) { // the end of one attempt is not the end of ctx
			answers[i].Err = err
		}
	}
	return answers
}

// Uploads implements Bucket.
func (r *Retrying) Uploads(ctx context.Context, prefix string) (out []Upload, err error) {
	err = r.do(ctx, "list uploads", prefix, ErrUnavailable, func(ctx context.Context) (err error) {
		out, err = r.in.Uploads(ctx, prefix)
		return err
	})
	return out, err
}

// AbortUpload implements Bucket. An upload that an earlier attempt of the same call ended is no error.
func (r *Retrying) AbortUpload(ctx context.Context, u Upload) error {
	again := false
	return r.do(ctx, "abort upload", u.Key, ErrAmbiguous, func(ctx context.Context) error {
		err := r.in.AbortUpload(ctx, u)
		if again && errors.Is(err, ErrNotExist) {
			return nil
		}
		again = true
		return err
	})
}

// Close implements Bucket.
func (r *Retrying) Close() error { return r.in.Close() }
