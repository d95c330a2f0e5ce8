package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/world"
)

// Each step is "b<channel>:<id>" (a barrier comes) or "a<id>" (the checkpoint is aborted); what it must bring follows.
func TestAlignmentTable(t *testing.T) {
	for name, steps := range map[string][]string{
		"all barriers align":               {"b0:1 -", "b2:1 -", "b1:1 aligned=1 released"},
		"one channel aligns at once":       {"1", "b0:7 aligned=7 released"},
		"a newer barrier supersedes":       {"b0:1 -", "b1:2 superseded=1 released", "b0:2 -", "b2:2 aligned=2 released", "b2:1 -"},
		"an older barrier means nothing":   {"b0:2 -", "b1:1 -", "b1:2 -", "b2:2 aligned=2 released"},
		"an abort releases":                {"b0:1 -", "b1:1 -", "a1 released", "b2:1 -", "b0:2 -", "b1:2 -", "b2:2 aligned=2 released"},
		"an abort before the barriers":     {"a1 -", "b0:1 -", "b1:1 -", "b2:1 -", "b0:2 -", "b1:2 -", "b2:2 aligned=2 released"},
		"an abort of a later one":          {"b0:1 -", "a2 -", "b1:1 -", "b2:1 aligned=1 released", "b0:2 -", "b0:3 -", "b1:3 -", "b2:3 aligned=3 released"},
		"an abort of a finished one":       {"b0:1 -", "b1:1 -", "b2:1 aligned=1 released", "a1 -", "b0:2 -", "b1:2 -", "b2:2 aligned=2 released"},
		"aborts out of order":              {"a3 -", "a2 -", "a3 -", "b0:2 -", "b0:3 -", "b0:4 -", "b1:4 -", "b2:4 aligned=4 released"},
		"superseded by one after an abort": {"b0:1 -", "a2 -", "b1:2 -", "b1:3 superseded=1 released", "b0:3 -", "b2:3 aligned=3 released"},
	} {
		t.Run(name, func(t *testing.T) {
			channels := 3
			if steps[0] == "1" {
				channels, steps = 1, steps[1:]
			}
			a := newAlignment(channels)
			for i, step := range steps {
				do, want, _ := strings.Cut(step, " ")
				if got := alignStep(t, a, do); got != want {
					t.Fatalf("step %d %q: %s", i, step, got)
				}
			}
		})
	}
}

func alignStep(t *testing.T, a *alignment, do string) string {
	t.Helper()
	var o outcome
	var channel int
	var id uint64
	if _, err := fmt.Sscanf(do, "b%d:%d", &channel, &id); err == nil {
		if a.blocked[channel] {
			t.Fatalf("%s: the channel is blocked", do)
		}
		o = a.arrive(channel, barrier{ID: id}, 0)
	} else if _, err := fmt.Sscanf(do, "a%d", &id); err == nil {
		o.released = a.abort(id)
	}
	var got []string
	if o.superseded != 0 {
		got = append(got, fmt.Sprintf("superseded=%d", o.superseded))
	}
	if o.aligned.ID != 0 {
		got = append(got, fmt.Sprintf("aligned=%d", o.aligned.ID))
	}
	if o.released {
		got = append(got, "released")
	}
	if got == nil {
		return "-"
	}
	return strings.Join(got, " ")
}

func TestAlignmentIsTimed(t *testing.T) {
	a := newAlignment(2)
	a.arrive(1, barrier{ID: 1, At: 10 * time.Second}, 12*time.Second)
	o := a.arrive(0, barrier{ID: 1, At: 10 * time.Second}, 15*time.Second)
	if o.delay != 2*time.Second || o.took != 3*time.Second {
		t.Errorf("start delay %v and alignment %v, want 2s and 3s", o.delay, o.took)
	}
}

// testGate returns a gate over n channels of its own.
func testGate(w world.World, n int) *gate {
	ready := world.NewQueue[int32](w, world.Unbounded)
	var chans []*channel
	for i := range n {
		chans = append(chans, &channel{index: int32(i), ready: ready, credits: 2, mu: world.NewMutex(w)})
	}
	return newGate(ready, chans)
}

func TestGateTakesNothingFromBlockedChannels(t *testing.T) {
	simulate(t, 1, func(_ context.Context, w world.World) {
		g := testGate(w, 2)
		send := func(c int, e element) { g.chans[c].send(e) }
		send(0, element{watermark: noWatermark, barrier: barrier{ID: 1}})
		send(0, element{buf: &buffer{recs: make([]entry, 3)}, watermark: noWatermark})
		from, e, ok := g.poll()
		if !ok || from != 0 || e.barrier.ID != 1 {
			t.Fatalf("first element is %+v of channel %d", e, from)
		}
		g.arrive(from, e.barrier, 0)
		if _, e, ok := g.poll(); ok {
			t.Fatalf("took %+v from a blocked channel", e)
		}
		if n, _ := g.queued(); n != 3 {
			t.Errorf("%d records are queued, want 3", n)
		}
		send(1, element{watermark: noWatermark, barrier: barrier{ID: 1}})
		from, e, ok = g.poll()
		if !ok || from != 1 {
			t.Fatalf("the other channel gives %+v", e)
		}
		if o := g.arrive(from, e.barrier, 0); o.aligned.ID != 1 {
			t.Fatalf("alignment is %+v", o)
		}
		if _, e, ok := g.poll(); !ok || e.buf == nil {
			t.Errorf("after the alignment the held buffer is %+v", e)
		}
	})
}

func TestGateWatermarkIsTheLowestOfThoseThatCount(t *testing.T) {
	simulate(t, 1, func(_ context.Context, w world.World) {
		g := testGate(w, 3)
		for i, s := range []struct {
			from int32
			e    element
			rose bool
			want int64
		}{
			{0, element{watermark: 10}, false, noWatermark},
			{1, element{watermark: 20}, false, noWatermark},
			{2, element{watermark: noWatermark, idle: true}, true, 10},
			{0, element{watermark: 15}, true, 15},
			{0, element{watermark: 30}, true, 20},
			{1, element{watermark: 5}, false, 20},
			{1, element{watermark: 25}, true, 25},
			{0, element{watermark: noWatermark, idle: true}, false, 25},
			{1, element{watermark: noWatermark, idle: true}, false, 25},
		} {
			if rose := g.note(s.from, &s.e); rose != s.rose || g.current != s.want {
				t.Errorf("step %d: rose %v to %d, want %v to %d", i, rose, g.current, s.rose, s.want)
			}
		}
		if !g.allIdle() {
			t.Error("not all channels are idle")
		}
	})
}

func TestWatermarksMergeIntoWhatIsQueued(t *testing.T) {
	simulate(t, 1, func(_ context.Context, w world.World) {
		c := testGate(w, 1).chans[0]
		for i := range int64(100) {
			c.send(element{watermark: i})
		}
		c.send(element{watermark: noWatermark, barrier: barrier{ID: 1}})
		c.send(element{watermark: 100})
		var got []string
		c.each(func(e *element) { got = append(got, fmt.Sprint(e.watermark, e.barrier.ID)) })
		if want := fmt.Sprint([]string{"99 0", fmt.Sprint(int64(noWatermark), 1), "100 0"}); fmt.Sprint(got) != want {
			t.Errorf("the channel holds %v, want %v", got, want)
		}
	})
}

func TestProducerWaitsForCredit(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		c := testGate(w, 1).chans[0]
		p := newProducer(w, 10, time.Millisecond, newMeter(w, 1))
		p.ctx = ctx
		c.attach(p.bell)
		first, _ := p.acquire(c)
		if _, err := p.acquire(c); err != nil {
			t.Fatal(err)
		}
		w.Go(ctx, "consumer", func(ctx context.Context) error {
			if err := w.Sleep(ctx, time.Second); err != nil {
				return err
			}
			c.release(first)
			return nil
		})
		third, err := p.acquire(c)
		if err != nil || third != first {
			t.Errorf("got buffer %p, %v; want the one that was given back, %p", third, err, first)
		}
		if got := p.meter.total(waitBackpressured, w.Now()); got != time.Second {
			t.Errorf("back-pressured for %v, want 1s", got)
		}
	})
}
