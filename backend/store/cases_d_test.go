package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// TestD05DeadlineEndsTheRetries: while nothing answers well, a call ends with its context, and nothing is asked for afterwards.
func TestD05DeadlineEndsTheRetries(t *testing.T) {
	for _, rule := range []string{"status=500", "status=503", "status=503 retry-after=1m", "timeout", "delay=70ms status=500"} {
		t.Run(rule, func(t *testing.T) {
			p := store.DefaultRetryPolicy()
			p.Base = 10 * ms // several attempts in the time there is
			retried(t, p, []string{"name=down " + rule}, func(ctx context.Context, w world.World, b *store.Retrying, _ *store.Mem, inj *store.Injector) {
				short, cancel := w.WithTimeout(ctx, 200*ms)
				defer cancel()
				err := b.Put(short, "log/1", []byte("x"), store.PutOptions{})
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrAmbiguous) || w.Now() > 200*ms {
					t.Errorf("after %v: %v", w.Now(), err)
				}
				made := b.Counts().Attempts
				if made < 1 || inj.Hits("down") != made {
					t.Errorf("%d attempts, %d requests met the rule", made, inj.Hits("down"))
				}
				w.Sleep(ctx, time.Minute)
				if late := b.Counts().Attempts - made; late != 0 {
					t.Errorf("%d requests after the deadline", late)
				}
			})
		})
	}
}

// TestD11NoBudgetIsShared: a burst of throttling over 200 parallel puts on two paths. Each put has its own attempts, so all of the
// patient path succeed, and one of the path that has a single attempt fails exactly when its only request was throttled.
func TestD11NoBudgetIsShared(t *testing.T) {
	inSim(t, 3, func(ctx context.Context, w world.World) {
		mem, inj := store.NewMem(), store.NewInjector(w)
		remove := inj.Add(rule(t, "name=burst op=put share=0.3 status=503"))
		slow := store.WithHooks(store.WithFaults(mem, inj, w), store.Hooks{Begin: func(ctx context.Context, _ store.Call) { w.Sleep(ctx, 20*ms) }})
		patient := store.WithRetry(slow, store.RetryPolicy{Attempts: 4, Throttled: 12, Base: 50 * ms, Cap: time.Second, Stream: "base"}, w)
		once := store.WithRetry(slow, store.RetryPolicy{Attempts: 1, Stream: "log"}, w)
		g := world.NewGroup(w)
		failed := 0
		for i := range 200 {
			g.Go(ctx, "put", func(ctx context.Context) error {
				if err := patient.Put(ctx, fmt.Sprint("base/", i), []byte("x"), store.PutOptions{}); err != nil {
					t.Errorf("base/%d: %v", i, err)
				}
				if err := once.Put(ctx, fmt.Sprint("log/", i), []byte("x"), store.PutOptions{}); err != nil {
					failed++
					if !errors.Is(err, store.ErrThrottled) {
						t.Errorf("log/%d: %v", i, err)
					}
				}
				return nil
			})
		}
		w.Sleep(ctx, 2*time.Second)
		remove()
		g.Wait(ctx)
		n, m := patient.Counts(), once.Counts()
		if n.GivenUp != 0 || n.Throttled < 50 || n.Attempts != 200+n.Throttled {
			t.Errorf("patient path: %+v", n)
		}
		if m.Attempts != 200 || failed < 30 || int64(failed) != m.Throttled {
			t.Errorf("path of one attempt: %+v, %d failed", m, failed)
		}
		if inj.Hits("burst") != n.Throttled+m.Throttled {
			t.Errorf("%d requests met the rule", inj.Hits("burst"))
		}
	})
}

// TestD12WaitIsRespected: nothing is asked for before the store said, nor after the deadline of the caller.
func TestD12WaitIsRespected(t *testing.T) {
	for _, c := range []struct {
		rule     string
		from, to time.Duration // of the time that the put takes
		err      error
	}{
		{"op=put request=1 status=503", 0, 100 * ms, nil},
		{"op=put request=1 status=503 retry-after=0s", 0, 100 * ms, nil},
		{"op=put request=1 status=429 retry-after=1s", time.Second, 1100 * ms, nil},
		{"op=put request=1 status=503 retry-after=2m", 10 * time.Second, 10 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(c.rule, func(t *testing.T) {
			retried(t, five, []string{c.rule}, func(ctx context.Context, w world.World, b *store.Retrying, _ *store.Mem, inj *store.Injector) {
				ctx, cancel := w.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				err := b.Put(ctx, "k", []byte("x"), store.PutOptions{})
				if !errors.Is(err, c.err) || w.Now() < c.from || w.Now() > c.to {
					t.Errorf("after %v: %v", w.Now(), err)
				}
				if err != nil && !errors.Is(err, store.ErrThrottled) {
					t.Errorf("nobody could tell that it was throttled: %v", err)
				}
				if b.Counts().Throttled != 1 {
					t.Errorf("%+v", b.Counts())
				}
			})
		})
	}
}

// TestD12ThrottlingIsTold: the trace tells what the store refused by itself from what a fault of the plan refused.
func TestD12ThrottlingIsTold(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		inj := store.NewInjector(w)
		inj.Add(rule(t, "op=put prefix=fault/ status=503"))
		var trace rows
		b := store.WithTrace(store.WithFaults(store.WithLatencyModel(store.NewMem(), w, store.Latency{WriteRate: 2}), inj, w), trace.add, w)
		b.Put(ctx, "fault/1", []byte("x"), store.PutOptions{})
		for i := range 5 {
			b.Put(ctx, fmt.Sprint("load/", i), []byte("x"), store.PutOptions{})
		}
		byFault, byStore := 0, 0
		for _, r := range trace {
			switch {
			case r.Throttled && r.Injected:
				byFault++
			case r.Throttled:
				byStore++
			}
			if r.Throttled != strings.Contains(r.Error, store.ErrThrottled.Error()) {
				t.Errorf("%+v", r)
			}
		}
		if byFault != 1 || byStore != 3 {
			t.Errorf("%d throttled by the fault, %d by the store", byFault, byStore)
		}
	})
}

// TestD17LastErrorSaysWhatItWas: after all attempts the error has class, number of attempts and key.
func TestD17LastErrorSaysWhatItWas(t *testing.T) {
	for _, c := range []struct {
		rule, code string
		kind       error
		attempts   string
	}{
		{"op=put status=503", "503", store.ErrThrottled, "after 5 attempts"},
		{"op=put status=403", "403", store.ErrDenied, "attempt 1"},
		{"op=put cut", "connection lost", store.ErrAmbiguous, "after 5 attempts"},
		{"op=put status=500", "500", store.ErrAmbiguous, "after 5 attempts"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			retried(t, five, []string{c.rule}, func(ctx context.Context, w world.World, b *store.Retrying, _ *store.Mem, _ *store.Injector) {
				err := b.Put(ctx, "log/1/seg", []byte("x"), store.PutOptions{})
				if !errors.Is(err, c.kind) {
					t.Fatalf("%v is not %v", err, c.kind)
				}
				for _, part := range []string{c.code, c.attempts, "log/1/seg"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
				n := b.Counts()
				if (c.kind == store.ErrThrottled) != (n.Throttled > 0) || (c.kind == store.ErrAmbiguous) != (n.Ambiguous > 0) {
					t.Errorf("classes: %+v", n)
				}
			})
		})
	}
}

// TestD18OneKeyOfManyFails: of 2,500 keys in one call one is refused. The others are gone, the answer names the one, and it goes with the
// next call.
func TestD18OneKeyOfManyFails(t *testing.T) {
	retried(t, five, nil, func(ctx context.Context, w world.World, b *store.Retrying, m *store.Mem, inj *store.Injector) {
		var keys []string
		for i := range 2500 {
			keys = append(keys, fmt.Sprintf("k/%04d", i))
			m.Put(ctx, keys[i], []byte("x"), store.PutOptions{})
		}
		allow := inj.Add(rule(t, "name=denied op=delete prefix=k/0010 status=403"))
		left := func() (n []string) {
			for a := range m.List(ctx, "", "") {
				n = append(n, a.Key)
			}
			return n
		}
		for i, d := range b.Delete(ctx, keys) {
			if d.Key != keys[i] || (d.Err != nil) != (d.Key == "k/0010") || d.Err != nil && !errors.Is(d.Err, store.ErrDenied) {
				t.Errorf("answer %d: %+v", i, d)
			}
		}
		if inj.Hits("denied") != 1 || !slices.Equal(left(), []string{"k/0010"}) {
			t.Fatalf("denied %d times; left: %v", inj.Hits("denied"), left())
		}
		allow()
		if d := b.Delete(ctx, left()); d[0].Err != nil || len(left()) != 0 {
			t.Errorf("later: %+v; left: %v", d, left())
		}
	})
}
