package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// retried runs f on a bucket with faults by rules under retries.
func retried(t *testing.T, p store.RetryPolicy, rules []string,
	f func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector)) {
	t.Helper()
	inSim(t, 7, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		inj := store.NewInjector(w)
		for _, text := range rules {
			inj.Add(rule(t, text))
		}
		f(ctx, w, store.WithRetry(store.WithFaults(m, inj, w), p, w), m, inj)
	})
}

var five = store.RetryPolicy{Attempts: 5, Base: 100 * ms, Cap: 300 * ms, Timeout: time.Second}

func TestRetryMakesUpForThrottling(t *testing.T) {
	retried(t, five, []string{"op=put request=1 status=503", "op=put request=2 status=500", "op=get request=1 cut"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			if err := b.Put(ctx, "k", []byte("x"), store.PutOptions{}); err != nil {
				t.Error(err)
			}
			if got, err := b.Get(ctx, "k"); err != nil || string(got) != "x" {
				t.Errorf("%q, %v", got, err)
			}
			n := b.Counts()
			if n.Requests != 2 || n.Attempts != 5 || n.Retries() != 3 || n.Throttled != 1 || n.Ambiguous != 1 || n.Unavailable != 1 || n.GivenUp != 0 {
				t.Errorf("%+v", n)
			}
			if n.Waited != w.Now() || n.Waited <= 0 || n.Waited > 400*ms {
				t.Errorf("waited %v of %v", n.Waited, w.Now())
			}
		})
}

func TestRetryResolvesConditionalPut(t *testing.T) {
	once := store.PutOptions{IfNotExist: true}
	for _, c := range []struct {
		name, rule, there string
		attempts          int
		want              error
		resolved          int64
	}{
		{"own put behind a lost answer", "op=put request=1 lost-ack", "", 5, nil, 1},
		{"no attempt left", "op=put lost-ack", "", 1, nil, 1},
		{"lost race", "op=put request=9 status=503", "theirs", 5, store.ErrPrecondition, 0},
		{"lost race after an unknown outcome", "op=put request=1 status=500", "theirs", 5, store.ErrPrecondition, 0},
		{"lost race, no attempt left", "op=put status=500", "theirs", 1, store.ErrPrecondition, 0},
		{"equal bytes", "op=put request=9 status=503", "mine", 5, nil, 1},
		{"never applied", "op=put status=500", "", 5, store.ErrAmbiguous, 0},
		{"answer lost, then not readable", "op=put|get status=500", "", 2, store.ErrAmbiguous, 0},
		{"throttled to the end", "op=put status=503", "", 3, store.ErrThrottled, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := five
			p.Attempts = c.attempts
			retried(t, p, []string{c.rule}, func(ctx context.Context, _ world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
				if c.there != "" {
					m.Put(ctx, "coord/1", []byte(c.there), once)
				}
				err := b.Put(ctx, "coord/1", []byte("mine"), once)
				if c.want == nil && err != nil || !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if errors.Is(c.want, store.ErrPrecondition) && errors.Is(err, store.ErrAmbiguous) {
					t.Errorf("a lost race is no unknown outcome: %v", err)
				}
				if n := b.Counts(); n.Resolved != c.resolved {
					t.Errorf("%+v", n)
				}
			})
		})
	}
}

func TestRetryBoundsEachAttempt(t *testing.T) {
	retried(t, five, []string{"request=1 timeout", "op=list request=1 timeout"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			if err := b.Put(ctx, "k", []byte("x"), store.PutOptions{}); err != nil {
				t.Error(err)
			}
			if w.Now() < time.Second || w.Now() > 1100*ms {
				t.Errorf("put took %v", w.Now())
			}
			n := 0
			for _, err := range b.List(ctx, "", "") {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if c := b.Counts(); n != 1 || c.Timeouts != 2 {
				t.Errorf("%d entries, %+v", n, c)
			}
		})
	retried(t, store.RetryPolicy{Attempts: 2, Timeout: time.Second}, []string{"timeout"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			err := b.Put(ctx, "k", []byte("x"), store.PutOptions{})
			if !errors.Is(err, store.ErrAmbiguous) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("put: %v", err)
			}
			_, err = b.Stat(ctx, "k")
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrAmbiguous) {
				t.Errorf("stat: %v", err)
			}
			d := b.Delete(ctx, []string{"k"})
			if !errors.Is(d[0].Err, store.ErrUnavailable) || errors.Is(d[0].Err, context.DeadlineExceeded) {
				t.Errorf("delete: %v", d[0].Err)
			}
			if c := b.Counts(); c.GivenUp != 3 || c.Attempts != 6 {
				t.Errorf("%+v", c)
			}
		})
}

func TestRetryKeepsUnknownOutcome(t *testing.T) {
	retried(t, five, []string{"op=put request=1 lost-ack", "op=put status=503"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			err := b.Put(ctx, "k", []byte("x"), store.PutOptions{})
			if !errors.Is(err, store.ErrThrottled) {
				t.Errorf("the first error counts of those of one request: %v", err)
			}
		})
	retried(t, five, []string{"op=put request=1 status=500", "op=put status=503"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, _ *store.Injector) {
			err := b.Put(ctx, "k", []byte("x"), store.PutOptions{})
			if !errors.Is(err, store.ErrAmbiguous) || !errors.Is(err, store.ErrThrottled) {
				t.Errorf("got %v, want throttled in the end, unknown in between", err)
			}
		})
}

func TestRetryStopsWhereItHelpsNothing(t *testing.T) {
	retried(t, five, []string{"op=put status=403"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
			if err := b.Put(ctx, "k", nil, store.PutOptions{}); !errors.Is(err, store.ErrDenied) {
				t.Error(err)
			}
			if _, err := b.Get(ctx, "k"); !errors.Is(err, store.ErrNotExist) {
				t.Error(err)
			}
			if n := b.Counts(); n.Attempts != 2 {
				t.Errorf("%+v", n)
			}
			inj.Add(rule(t, "op=stat status=503"))
			stop, cancel := w.WithCancel(ctx)
			why := errors.New("worker stops")
			w.Go(ctx, "stopper", func(ctx context.Context) error {
				err := w.Sleep(ctx, ms)
				cancel(why)
				return err
			})
			if _, err := b.Stat(stop, "k"); !errors.Is(err, why) || w.Now() != ms {
				t.Errorf("stat: %v at %v", err, w.Now())
			}
		})
}

func TestRetryListsEachKeyOnce(t *testing.T) {
	retried(t, store.RetryPolicy{Attempts: 50, Base: ms, Cap: ms}, []string{"op=list share=0.6 cut"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
			var want, got []string
			for i := range 3500 {
				want = append(want, fmt.Sprintf("log/%05d", i))
				m.Put(ctx, want[i], nil, store.PutOptions{})
			}
			for a, err := range b.List(ctx, "log/", want[99]) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, a.Key)
			}
			if !slices.Equal(got, want[100:]) {
				t.Errorf("%d keys, want %d", len(got), len(want)-100)
			}
			if b.Counts().Retries() == 0 {
				t.Error("no listing was cut")
			}
		})
}

func TestRetryDeletesOnlyWhatFailed(t *testing.T) {
	retried(t, five, []string{"prefix=bad request=1 status=503", "prefix=worse status=500", "prefix=lost request=1 lost-ack"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
			keys := []string{"a", "bad", "b", "worse", "lost"}
			for _, key := range keys {
				m.Put(ctx, key, nil, store.PutOptions{})
			}
			for i, d := range b.Delete(ctx, keys) {
				if d.Key != keys[i] || (d.Err != nil) != (keys[i] == "worse") {
					t.Errorf("%+v", d)
				}
			}
			if got := inj.Asked("delete"); got != 5+3+3 {
				t.Errorf("%d keys were asked for", got)
			}
			if s := m.Stats(); s.Objects != 1 || s.UnknownDeletes != 1 {
				t.Errorf("%+v", s)
			}
		})
}

func TestRetryAbortsAfterLostAnswer(t *testing.T) {
	retried(t, five, []string{"op=abort request=1 lost-ack"},
		func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
			u, _ := m.BeginUpload(ctx, "k", nil)
			if err := b.AbortUpload(ctx, u); err != nil {
				t.Error(err)
			}
			if err := b.AbortUpload(ctx, u); !errors.Is(err, store.ErrNotExist) {
				t.Error(err)
			}
		})
}

// TestThrottledRequestsAreMadeLonger: throttling is no failure; anything else still is, after the usual number of attempts.
func TestThrottledRequestsAreMadeLonger(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		for _, c := range []struct {
			rule string
			want int64
		}{{"op=get status=503", 12}, {"op=get status=500", 3}} {
			inj := store.NewInjector(w)
			inj.Add(rule(t, c.rule))
			b := store.WithRetry(store.WithFaults(store.NewMem(), inj, w), store.RetryPolicy{Attempts: 3, Throttled: 12, Base: ms, Stream: c.rule}, w)
			if _, err := b.Get(ctx, "k"); err == nil || b.Counts().Attempts != c.want || b.Counts().GivenUp != 1 {
				t.Errorf("%s: %v after %+v", c.rule, err, b.Counts())
			}
		}
	})
}
