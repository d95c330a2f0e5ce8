package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestTraceRowsSayWhatHappened(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		var trace rows
		b := store.WithTrace(store.WithLatencyModel(m, w, store.Latency{Put: store.FirstByte{Median: 10 * ms}, List: store.FirstByte{Median: 3 * ms}}), trace.add, w)
		ctx = store.WithInfo(ctx, store.Info{Who: "worker-0", Attempt: 2, Cause: "log"})
		body := []byte("123456789")
		b.Put(ctx, "k", body, store.PutOptions{IfNotExist: true, Info: store.Info{Checkpoint: 4, Cause: "meta"}})
		want := history.Request{
			Seq: 1, Duration: 10 * ms, Op: "put", Key: "k", Bytes: 9, CRC32C: 0xe3069283, IfAbsent: true, Applied: history.AppliedYes,
			Attempt: 2, Who: "worker-0", Cause: "meta", Checkpoint: 4,
		}
		if got := trace.last(t); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		b.Put(ctx, "k", body, store.PutOptions{IfNotExist: true})
		if got := trace.last(t); got.Applied != history.AppliedNo || got.Error == "" || got.Start != 10*ms {
			t.Errorf("%+v", got)
		}
		b.Put(ctx, "k", []byte("other"), store.PutOptions{})
		if got := trace.last(t); got.Applied != history.AppliedNo {
			t.Errorf("%+v", got)
		}
		b.GetRange(ctx, "k", 4, 100)
		if got := trace.last(t); got.Offset != 4 || got.Bytes != 5 || got.CRC32C != store.CRC32C(body[4:]) || got.Op != "get" {
			t.Errorf("%+v", got)
		}
		for i := range 5 {
			m.Put(ctx, fmt.Sprint("l/", i), nil, store.PutOptions{})
		}
		for a := range b.List(ctx, "l/", "") {
			w.Sleep(ctx, time.Second) // the caller's time, not the store's
			if a.Key == "l/3" {
				break
			}
		}
		if got := trace.last(t); got.Key != "l/" || got.Count != 4 || got.Duration != 3*ms || got.Open || got.Applied != history.AppliedYes {
			t.Errorf("%+v", got)
		}
		text, err := json.Marshal(history.Request{Seq: 1, Op: "stat", Key: "k", Applied: history.AppliedYes})
		if err != nil || string(text) != `{"seq":1,"start":0,"dur":0,"op":"stat","key":"k","applied":"yes"}` {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// TestTraceOfKilledProcess kills a process at each stage of a request and compares what the row says with the store.
func TestTraceOfKilledProcess(t *testing.T) {
	m1 := store.Latency{Put: store.FirstByte{Median: 10 * ms}, Get: store.FirstByte{Median: 10 * ms}, List: store.FirstByte{Median: 10 * ms}, Delete: store.FirstByte{Median: 10 * ms}}
	for _, c := range []struct {
		op      string
		rule    string
		at      time.Duration
		applied history.Applied
	}{
		{"put", "", 2 * ms, history.AppliedNo}, {"put", "", 7 * ms, history.AppliedYes},
		{"put", "delay=50ms", 40 * ms, history.AppliedNo}, {"put", "timeout", 40 * ms, history.AppliedNo},
		{"put", "delay=50ms", 58 * ms, history.AppliedYes}, {"put", "lost-ack", 7 * ms, history.AppliedYes},
		{"delete", "", 2 * ms, history.AppliedNo}, {"delete", "", 7 * ms, history.AppliedYes},
		{"get", "", 7 * ms, history.AppliedNo}, {"list", "", 7 * ms, history.AppliedNo},
	} {
		t.Run(fmt.Sprint(c.op, c.rule, c.at), func(t *testing.T) {
			inSim(t, 1, func(ctx context.Context, w world.World) {
				m := store.NewMem()
				m.Put(ctx, "there", nil, store.PutOptions{})
				inj := store.NewInjector(w)
				if c.rule != "" {
					inj.Add(rule(t, c.rule))
				}
				var trace rows
				b := store.WithFence(store.WithTrace(store.WithFaults(store.WithLatencyModel(m, w, m1), inj, w), trace.add, w), nil)
				d := w.NewDomain("worker-0", world.DomainOptions{})
				returned := false
				w.Go(d.Enter(ctx), "caller", func(ctx context.Context) error {
					request(ctx, b, m, c.op, store.Upload{})
					returned = true
					return nil
				})
				w.Sleep(ctx, c.at)
				d.Kill()
				d.Await(ctx)
				row := trace.last(t)
				if returned || !row.Open || row.Applied != c.applied || row.Duration != c.at || row.Injected != (c.rule != "") {
					t.Errorf("returned %v, row %+v, want open and applied %s", returned, row, c.applied)
				}
				_, there := m.Stat(ctx, "new")
				_, gone := m.Stat(ctx, "there")
				changed := c.op == "put" && there == nil || c.op == "delete" && gone != nil
				if changed != (row.Applied == history.AppliedYes) {
					t.Errorf("changed %v, row %+v", changed, row)
				}
			})
		})
	}
}

func TestFenceBeforeAndAfterTheEffect(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		stale := errors.New("attempt 3 is over")
		checks, failAt := 0, 1
		b := store.WithFence(m, func(context.Context) error {
			if checks++; checks == failAt {
				return stale
			}
			return nil
		})
		err := b.Put(ctx, "k", nil, store.PutOptions{})
		if !errors.Is(err, store.ErrFenced) || !errors.Is(err, stale) || m.Stats().Objects != 0 {
			t.Errorf("before: %v, %+v", err, m.Stats())
		}
		checks, failAt = 0, 2
		err = b.Put(ctx, "k", nil, store.PutOptions{})
		if !errors.Is(err, store.ErrFenced) || m.Stats().Objects != 1 {
			t.Errorf("after: %v, %+v", err, m.Stats())
		}
		checks, failAt = 0, 2
		if d := b.Delete(ctx, []string{"k", "l"}); len(d) != 2 || !errors.Is(d[1].Err, store.ErrFenced) || d[1].Key != "l" {
			t.Errorf("delete: %+v", d)
		}
		checks, failAt = 0, 2
		for _, err = range b.List(ctx, "", "") {
		}
		if !errors.Is(err, store.ErrFenced) {
			t.Errorf("list: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHooksMayKillTheCaller(t *testing.T) {
	for _, when := range []string{"begin", "end"} {
		inSim(t, 1, func(ctx context.Context, w world.World) {
			m := store.NewMem()
			d := w.NewDomain("worker-0", world.DomainOptions{})
			kill := func(c store.Call) {
				if c.Op == "put" && c.Key == "k" && c.Bytes == 2 {
					d.Kill()
				}
			}
			var h store.Hooks
			if when == "begin" {
				h.Begin = func(_ context.Context, c store.Call) { kill(c) }
			} else {
				h.End = func(_ context.Context, c store.Call, _ error) { kill(c) }
			}
			b := store.WithHooks(m, h)
			w.Go(d.Enter(ctx), "caller", func(ctx context.Context) error {
				b.Put(ctx, "other", nil, store.PutOptions{})
				b.Put(ctx, "k", []byte("xy"), store.PutOptions{})
				b.Put(ctx, "after", nil, store.PutOptions{})
				return nil
			})
			d.Await(ctx)
			for range 3 {
				w.Sleep(ctx, ms)
			}
			if got := m.Stats().Objects; got != map[string]int64{"begin": 1, "end": 2}[when] {
				t.Errorf("%s: %d objects", when, got)
			}
		})
	}
}

// TestDecoratorsReachHooks calls every method through the whole stack: none may be swallowed on its way.
func TestDecoratorsReachHooks(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		u, _ := m.BeginUpload(ctx, "p/up", nil)
		u.Key = "up"
		var seen []string
		var trace rows
		h := store.Hooks{Begin: func(_ context.Context, c store.Call) { seen = append(seen, c.Op+" "+c.Key) }}
		b := stack(w, store.WithHooks(store.WithPrefix(m, "p/"), h), trace.add, store.NewInjector(w))
		for _, op := range []string{"put", "get", "stat", "list", "uploads", "delete", "abort"} {
			request(ctx, b, m, op, u)
		}
		b.GetRange(ctx, "there", 0, 1)
		want := []string{"put new", "get there", "stat there", "list ", "uploads ", "delete there", "abort up", "get there"}
		if !slices.Equal(seen, want) {
			t.Errorf("got  %v\nwant %v", seen, want)
		}
		if len(trace) != len(want) {
			t.Errorf("%d rows, want %d", len(trace), len(want))
		}
	})
}

// stack puts all decorators around b, as a run does.
func stack(w world.World, b store.Bucket, sink func(history.Request), inj *store.Injector) store.Bucket {
	b = store.WithLatencyModel(b, w, store.Latency{Put: store.FirstByte{Median: 5 * ms, Sigma: 0.4}, Get: store.FirstByte{Median: 3 * ms, Sigma: 0.4}, Stat: store.FirstByte{Median: ms, Sigma: 0.4}, List: store.FirstByte{Median: ms, Sigma: 0.4}, Delete: store.FirstByte{Median: ms, Sigma: 0.4}, PerByte: 1e-8, Bandwidth: 1e8})
	b = store.WithTrace(store.WithFaults(b, inj, w), sink, w)
	return store.WithFence(store.WithRetry(b, store.RetryPolicy{Attempts: 8, Base: ms, Cap: 4 * ms, Timeout: time.Second}, w), nil)
}

// busy runs workers on the stack in w, with faults that come and go and one worker that is killed.
func busy(t testing.TB, w world.World, sink func(history.Request)) error {
	return w.Run(func(ctx context.Context) error {
		m := store.NewMem()
		inj := store.NewInjector(w)
		b := stack(w, m, sink, inj)
		inj.Add(rule(t, "name=a share=0.2 status=503"))
		inj.Add(rule(t, "name=b op=put share=0.1 lost-ack"))
		remove := inj.Add(rule(t, "name=c share=0.3 delay=1ms jitter=4ms"))
		var domains []*world.Domain
		g := world.NewGroup(w)
		for i := range 4 {
			name := fmt.Sprint("worker-", i)
			d := w.NewDomain(name, world.DomainOptions{})
			domains = append(domains, d)
			g.Go(store.WithInfo(d.Enter(ctx), store.Info{Who: name}), name, func(ctx context.Context) error {
				for n := range 20 {
					key := fmt.Sprintf("log/%d/%d", i, n)
					if err := b.Put(ctx, key, make([]byte, 100*n), store.PutOptions{IfNotExist: n%3 == 0}); err != nil {
						return err
					}
					if _, err := b.Get(ctx, key); err != nil {
						return err
					}
					if d := b.Delete(ctx, []string{key}); d[0].Err != nil {
						return d[0].Err
					}
				}
				return nil
			})
		}
		w.Sleep(ctx, 40*ms)
		remove()
		domains[1].Kill()
		if err := g.Wait(ctx); !errors.Is(err, world.ErrKilled) {
			return err
		}
		return nil
	})
}

func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) (trace rows) {
		if err := busy(t, world.NewSim(world.SimOptions{Seed: seed}), trace.add); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		return trace
	}
	for seed := uint64(1); seed <= 10; seed++ {
		a, b := run(seed), run(seed)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two runs differ, %d and %d rows", seed, len(a), len(b))
		}
		if reflect.DeepEqual(a, run(seed+100)) {
			t.Errorf("seeds %d and %d give the same trace", seed, seed+100)
		}
	}
}

func TestStackInTheRealWorld(t *testing.T) {
	var mu sync.Mutex
	seen := map[uint64]bool{}
	err := busy(t, world.NewReal(1), func(q history.Request) {
		mu.Lock()
		defer mu.Unlock()
		if seen[q.Seq] || q.Duration < 0 {
			t.Errorf("row %+v", q)
		}
		seen[q.Seq] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(seen) {
		if !seen[uint64(i+1)] {
			t.Errorf("request %d of %d has no row", i+1, len(seen))
		}
	}
}
