package failpoint

import (
	"context"
	"errors"
	"testing"
	"time"

	"statebench.dev/bench/internal/world"
)

func TestPointsAreUniqueAndCounted(t *testing.T) {
	all := Points()
	if len(all) != numPoints {
		t.Fatalf("%d points, numPoints is %d", len(all), numPoints)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p] || !Known(p) {
			t.Errorf("point %q is listed twice or not known", p)
		}
		seen[p] = true
	}
	if Known("checkpoint-id") {
		t.Error("an unknown point is known")
	}
}

func TestNilSetIsInert(t *testing.T) {
	var s *Set
	if err := s.Hit(t.Context(), CheckpointAckEnd, "a"); err != nil || s.Count(CheckpointAckEnd) != 0 || s.Mutant("x") {
		t.Errorf("a nil set acts: %v", err)
	}
	if err := s.ArmMutant("x"); err == nil {
		t.Error("a nil set takes a mutant")
	}
}

func TestArm(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		when When
		want []int64 // N of the hits that trigger, among a a b a b a
	}{
		{"all", When{}, []int64{1, 2, 3, 4, 5, 6}},
		{"actor", When{Actor: "b"}, []int64{3, 5}},
		{"nth", When{Nth: 5}, []int64{5, 6}},
		{"nth of actor once", When{Actor: "a", Nth: 3, Times: 1}, []int64{4}},
		{"none", When{Actor: "c"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New()
			var got []int64
			armed, err := s.Arm(CheckpointUploadBegin, tt.when, func(_ context.Context, h Hit) error {
				if h.Point != CheckpointUploadBegin {
					t.Errorf("hit of %s", h.Point)
				}
				got = append(got, h.N)
				return boom
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, actor := range []string{"a", "a", "b", "a", "b", "a"} {
				before := len(got)
				err := s.Hit(t.Context(), CheckpointUploadBegin, actor)
				if (err == boom) != (len(got) > before) {
					t.Errorf("hit returned %v", err)
				}
			}
			if len(got) != len(tt.want) || armed.Triggered() != int64(len(tt.want)) {
				t.Fatalf("triggered %v, want %v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Fatalf("triggered %v, want %v", got, tt.want)
				}
			}
			armed.Disarm()
			armed.Disarm()
			if err := s.Hit(t.Context(), CheckpointUploadBegin, "a"); err != nil || s.Count(CheckpointUploadBegin) != 7 {
				t.Errorf("after disarm: %v, count %d", err, s.Count(CheckpointUploadBegin))
			}
		})
	}
	if _, err := New().Arm("checkpoint-nowhere", When{}, nil); err == nil {
		t.Error("an unknown point can be armed")
	}
}

// TestActionsRunInTheEmittingProcess: an action may wait, and may kill the emitter's domain.
func TestActionsRunInTheEmittingProcess(t *testing.T) {
	w := world.NewSim(world.SimOptions{Seed: 3})
	s := New()
	d := w.NewDomain("worker", world.DomainOptions{})
	after := false
	err := w.Run(func(ctx context.Context) error {
		if _, err := s.Arm(CheckpointAckBegin, When{Nth: 2}, func(ctx context.Context, _ Hit) error {
			if err := w.Sleep(ctx, time.Second); err != nil {
				return err
			}
			d.Kill()
			world.CheckAlive(ctx)
			return nil
		}); err != nil {
			return err
		}
		g := world.NewGroup(w)
		g.Go(d.Enter(ctx), "subtask", func(ctx context.Context) error {
			for range 2 {
				if err := s.Hit(ctx, CheckpointAckBegin, "subtask"); err != nil {
					return err
				}
			}
			after = true
			return nil
		})
		return g.Wait(ctx)
	})
	if !errors.Is(err, world.ErrKilled) || after || w.Now() != time.Second {
		t.Errorf("%v, went on after the kill: %v, at %v", err, after, w.Now())
	}
}

func TestMutantsNeedTheTag(t *testing.T) {
	s, other := New(), New()
	err := s.ArmMutant("ack-before-upload")
	if (err == nil) != MutantsBuilt {
		t.Fatalf("arm a mutant: %v, built %v", err, MutantsBuilt)
	}
	if s.Mutant("ack-before-upload") != MutantsBuilt {
		t.Error("the armed mutant does not answer as it should")
	}
	if s.Mutant("another") || other.Mutant("ack-before-upload") {
		t.Error("a mutant that is not armed on this set is on")
	}
}

func BenchmarkHit(b *testing.B) {
	s := New()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Hit(b.Context(), CheckpointAckEnd, "map/0"); err != nil {
			b.Fatal(err)
		}
	}
}
