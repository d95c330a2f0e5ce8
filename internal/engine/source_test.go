package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// tape is a downstream that writes down what comes.
type tape struct {
	sent    []string
	marks   []int64
	dues    []time.Duration
	retired bool
}

func (d *tape) Collect(r *graph.Record) error {
	d.sent = append(d.sent, fmt.Sprintf("%d:%d", r.Partition, r.Index))
	d.dues = append(d.dues, r.Due)
	return nil
}

func (d *tape) advance(m int64) error { d.marks = append(d.marks, m); return nil }
func (d *tape) retire()               { d.retired = true }

// testSource is a source subtask over the given positions, in a loop that does not run.
func testSource(t *testing.T, w world.World, src *numbers, at ...checkpoint.Position) (*source, *tape, *rig) {
	r := newRig(t, w, src, plainCounter, 1)
	wk := newWorker(r.cfg, r.tr, r.net, "worker-0", 1)
	a := &execution{w: wk, id: 1, d: Deploy{Parallelism: 1}}
	s := &subtask{loop: &loop{a: a}, node: wk.node("numbers"), name: "numbers-0", d: SubtaskDeployment{Operator: "numbers", Positions: at}}
	out := &tape{}
	return newSource(s, out), out, r
}

func TestSourceKeepsItsSchedule(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 2, keys: 10, total: 6, gap: 10 * time.Millisecond}
		s, out, _ := testSource(t, w, src, checkpoint.Position{Partition: 0}, checkpoint.Position{Partition: 1, Next: 3})
		if err := s.open(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := s.batch(ctx, time.Hour, 100); n != 0 || err != nil {
			t.Fatalf("before its start the source emits %d records, %v", n, err)
		}
		began := time.Second
		if err := s.start(ctx, began); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			now  time.Duration
			want string
			next time.Duration
		}{
			{began - 1, "[]", began},
			{began, "[0:0]", began + 10*time.Millisecond},
			{began + 25*time.Millisecond, "[0:1 0:2]", began + 30*time.Millisecond},
			// Of two that are due at once, the one that waited longer goes first.
			{began + 40*time.Millisecond, "[1:3 0:3 0:4 1:4]", began + 50*time.Millisecond},
			{began + time.Hour, "[0:5 1:5]", world.Never},
		} {
			out.sent = nil
			if _, err := s.batch(ctx, step.now, 100); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(out.sent); got != step.want {
				t.Errorf("at %v: %s, want %s", step.now, got, step.want)
			}
			if got := s.nextDue(); got != step.next {
				t.Errorf("at %v: next due %v, want %v", step.now, got, step.next)
			}
		}
		if last := out.dues[len(out.dues)-1]; last != began+50*time.Millisecond {
			t.Errorf("a late record is due at %v, want its place in the schedule", last)
		}
		if last := out.marks[len(out.marks)-1]; last != 6 {
			t.Errorf("last watermark %d, want 6: partitions at their limit keep it", last)
		}
	})
}

func TestSourceTakesTurnsWhenUnthrottled(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 3, keys: 10, total: 1000}
		s, out, r := testSource(t, w, src, checkpoint.Position{Partition: 0}, checkpoint.Position{Partition: 1}, checkpoint.Position{Partition: 2})
		if err := s.open(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.start(ctx, 0); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if n, err := s.batch(ctx, 0, turnRecords); n != turnRecords || err != nil {
				t.Fatalf("a batch has %d records, %v", n, err)
			}
		}
		for p, next := range r.net.progress.Positions() {
			if next != turnRecords {
				t.Errorf("partition %d is at %d, want %d", p, next, turnRecords)
			}
		}
		if got := len(out.sent); got != 3*turnRecords {
			t.Errorf("%d records were sent", got)
		}
	})
}

func TestSourceStops(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		src := &numbers{parts: 2, keys: 10, total: 1000}
		s, _, r := testSource(t, w, src, checkpoint.Position{Partition: 0, Next: 50}, checkpoint.Position{Partition: 1, Next: 5})
		if err := s.open(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.start(ctx, 0); err != nil {
			t.Fatal(err)
		}
		s.stop(ctx, []int64{20, 30})
		if _, err := s.batch(ctx, 0, 1000); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.net.progress.Positions()); got != "[50 30]" {
			t.Errorf("positions %s, want [50 30]", got)
		}
		if !r.net.progress.Finished() {
			t.Error("the source is not finished")
		}
		ranges := r.kinds(history.SourceRange)
		if len(ranges) != 1 || ranges[0].Partition != 1 || ranges[0].From != 5 || ranges[0].To != 30 {
			t.Errorf("ranges %+v, want one of partition 1 from 5 to 30", ranges)
		}
	})
}

func TestSourceWithoutPartitionsRetires(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		s, out, _ := testSource(t, w, &numbers{parts: 1, keys: 1, total: 1})
		if err := s.open(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.start(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if !out.retired || len(out.marks) != 0 {
			t.Errorf("retired %v, watermarks %v", out.retired, out.marks)
		}
	})
}
