package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func simulate(t *testing.T, seed uint64, f func(ctx context.Context, w world.World)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: seed})
	if err := w.Run(func(ctx context.Context) error { f(ctx, w); return nil }); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func open(t *testing.T, ctx context.Context, w world.World, b store.Bucket, owner string) *Log {
	t.Helper()
	l, err := OpenLog(ctx, w, b, owner)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogKeepsItsState(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		mem := store.NewMem()
		l := open(t, ctx, w, mem, "a")
		if err := l.Complete(ctx, 1, "x"); err == nil {
			t.Error("appended without having taken over")
		}
		term, err := l.TakeOver(ctx)
		must(t, err)
		if term != 1 || l.State().NextID() != 1 {
			t.Errorf("term %d, next id %d", term, l.State().NextID())
		}
		must(t, l.Reserve(ctx, 1))
		must(t, l.Reserve(ctx, 1000)) // is reserved
		must(t, l.Complete(ctx, 3, MetadataKey(3, 1)))
		must(t, l.Complete(ctx, 5, MetadataKey(5, 1)))
		if err := l.Complete(ctx, 4, MetadataKey(4, 1)); err == nil {
			t.Error("4 completed after 5")
		}
		must(t, l.Drop(ctx, 3))
		must(t, l.Drop(ctx, 3)) // again: nothing to do
		want := State{Seq: 5, Term: 1, Owner: "a", Reserved: 1000, Newest: 5, Retained: []Retained{{5, MetadataKey(5, 1)}}}
		if got := l.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		again := open(t, ctx, w, mem, "b")
		if got := again.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("read: got %+v, want %+v", got, want)
		}
		if again.State().NextID() != 1001 {
			t.Errorf("a new leader begins at %d", again.State().NextID())
		}
	})
}

// TestStartSaysWhoOwnsWhat: in each mode, before and after the log was read again.
func TestStartSaysWhoOwnsWhat(t *testing.T) {
	at := func(id uint64) Retained { return Retained{id, MetadataKey(id, 1)} }
	saved := Retained{5, SavepointMetadataKey(5, 1)}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, l *Log) error
		want State
	}{
		{"a savepoint without claim", func(ctx context.Context, l *Log) error { return l.Start(ctx, 5, saved.Metadata, NoClaim) },
			State{Seq: 6, Retained: nil, Savepoints: []Retained{saved}, Released: []Retained{at(3), at(4)}, Origin: saved, Mode: NoClaim}},
		{"a savepoint, claimed", func(ctx context.Context, l *Log) error { return l.Start(ctx, 5, saved.Metadata, Claim) },
			State{Seq: 6, Newest: 5, Retained: []Retained{at(3), at(4), saved}}},
		{"a checkpoint in mode legacy", func(ctx context.Context, l *Log) error { return l.Start(ctx, 4, at(4).Metadata, Legacy) },
			State{Seq: 6, Savepoints: []Retained{saved}, Released: []Retained{at(3), at(4)}, Origin: at(4), Mode: Legacy}},
		{"a checkpoint that was the user's, claimed", func(ctx context.Context, l *Log) error {
			return errors.Join(l.Start(ctx, 4, at(4).Metadata, Legacy), l.Start(ctx, 4, at(4).Metadata, Claim))
		}, State{Seq: 7, Retained: []Retained{at(4)}, Savepoints: []Retained{saved}, Released: []Retained{at(3)}}},
		{"a checkpoint of the new life", func(ctx context.Context, l *Log) error {
			return errors.Join(l.Start(ctx, 5, saved.Metadata, NoClaim), l.Complete(ctx, 6, at(6).Metadata))
		}, State{Seq: 7, Newest: 6, Retained: []Retained{at(6)}, Savepoints: []Retained{saved}, Released: []Retained{at(3), at(4)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				mem := store.NewMem()
				l := open(t, ctx, w, mem, "a")
				_, err := l.TakeOver(ctx)
				must(t, errors.Join(err, l.Reserve(ctx, 1), l.Complete(ctx, 3, at(3).Metadata), l.Complete(ctx, 4, at(4).Metadata),
					l.Savepoint(ctx, 5, saved.Metadata), c.do(ctx, l)))
				c.want.Term, c.want.Owner, c.want.Reserved, c.want.Newest = 1, "a", 1000, max(4, c.want.Newest)
				for _, got := range []State{l.State(), open(t, ctx, w, mem, "b").State()} {
					if fmt.Sprint(got) != fmt.Sprint(c.want) { // an empty list is as good as none
						t.Errorf("got %+v, want %+v", got, c.want)
					}
				}
			})
		})
	}
}

func TestStaleLeaderLosesASequenceNumberAndStepsDown(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		mem := store.NewMem()
		old := open(t, ctx, w, mem, "old")
		_, err := old.TakeOver(ctx)
		must(t, err)
		must(t, old.Complete(ctx, 1, MetadataKey(1, 1)))
		standby := open(t, ctx, w, mem, "new")
		must(t, old.Complete(ctx, 2, MetadataKey(2, 1))) // slips in before the takeover, and counts
		term, err := standby.TakeOver(ctx)
		must(t, err)
		if s := standby.State(); term != 2 || s.Newest != 2 {
			t.Errorf("term %d, newest %d; want 2 and 2", term, s.Newest)
		}
		for range 2 {
			if err := old.Complete(ctx, 3, MetadataKey(3, 1)); !errors.Is(err, ErrFenced) {
				t.Errorf("the old leader completed a checkpoint: %v", err)
			}
		}
		must(t, standby.Complete(ctx, 1001, MetadataKey(1001, 2)))
		if s := open(t, ctx, w, mem, "x").State(); s.Newest != 1001 || s.Term != 2 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestOfTwoStandbysOneLeads(t *testing.T) {
	for seed := range uint64(50) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			mem := store.NewMem()
			var leaders []string
			g := world.NewGroup(w)
			for i := range 4 {
				owner := fmt.Sprint("standby-", i)
				g.Go(ctx, owner, func(ctx context.Context) error {
					b := store.WithHooks(mem, store.Hooks{Begin: func(ctx context.Context, _ store.Call) { _ = w.Sleep(ctx, time.Millisecond) }})
					l, err := OpenLog(ctx, w, b, owner)
					if err != nil {
						return err
					}
					if _, err := l.TakeOver(ctx); err == nil {
						leaders = append(leaders, owner)
					} else if !errors.Is(err, ErrFenced) {
						return err
					}
					return nil
				})
			}
			must(t, g.Wait(ctx))
			if s := open(t, ctx, w, mem, "x").State(); len(leaders) == 0 || s.Owner != leaders[len(leaders)-1] || int(s.Term) != len(leaders) {
				t.Errorf("seed %d: leaders %v, state %+v", seed, leaders, s)
			}
		})
	}
}

// lossy fails puts with the given errors, one after the other; a put whose error is ambiguous has its effect when applied says so.
type lossy struct {
	store.Bucket
	errs    []error
	applied []bool
}

func (l *lossy) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if len(l.errs) == 0 {
		return l.Bucket.Put(ctx, key, body, o)
	}
	err, applied := l.errs[0], l.applied[0]
	l.errs, l.applied = l.errs[1:], l.applied[1:]
	if applied {
		if perr := l.Bucket.Put(ctx, key, body, o); perr != nil {
			return perr
		}
	}
	return err
}

func TestUnknownOutcomeIsResolved(t *testing.T) {
	ambiguous, throttled := fmt.Errorf("lost: %w", store.ErrAmbiguous), fmt.Errorf("slow down: %w", store.ErrThrottled)
	for name, c := range map[string]struct {
		errs    []error
		applied []bool
		err     error
	}{
		"applied":                      {[]error{ambiguous}, []bool{true}, nil},
		"not applied":                  {[]error{ambiguous}, []bool{false}, nil},
		"not applied, then throttled":  {[]error{ambiguous, throttled, throttled}, []bool{false, false, false}, nil},
		"applied, then throttled":      {[]error{ambiguous, throttled}, []bool{true, false}, nil},
		"throttled":                    {[]error{throttled}, []bool{false}, store.ErrThrottled},
		"twice unknown, then it shows": {[]error{ambiguous, ambiguous}, []bool{false, true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 1, func(ctx context.Context, w world.World) {
				mem := store.NewMem()
				b := &lossy{Bucket: mem}
				l := open(t, ctx, w, b, "a")
				_, err := l.TakeOver(ctx)
				must(t, err)
				b.errs, b.applied = c.errs, c.applied
				err = l.Complete(ctx, 1, MetadataKey(1, 1))
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				if got := open(t, ctx, w, mem, "x").State().Newest; (got == 1) != (err == nil) || got != l.State().Newest {
					t.Errorf("newest is %d in the store and %d for the leader, after error %v", got, l.State().Newest, err)
				}
				must(t, l.Complete(ctx, 2, MetadataKey(2, 1)))
			})
		})
	}
}

// TestUnknownOutcomeIsSettledFirst: a leader that was cancelled in the middle of a put finds out about it before it writes again.
func TestUnknownOutcomeIsSettledFirst(t *testing.T) {
	for _, applied := range []bool{true, false} {
		simulate(t, 1, func(ctx context.Context, w world.World) {
			mem := store.NewMem()
			b := &lossy{Bucket: mem}
			l := open(t, ctx, w, b, "a")
			_, err := l.TakeOver(ctx)
			must(t, err)
			limited, cancel := w.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			b.errs, b.applied = []error{store.ErrAmbiguous, store.ErrAmbiguous}, []bool{applied, false}
			if err := l.Complete(limited, 1, MetadataKey(1, 1)); err == nil {
				t.Error("the context's end is no error")
			}
			b.errs, b.applied = nil, nil
			must(t, l.Complete(ctx, 2, MetadataKey(2, 1)))
			s := open(t, ctx, w, mem, "x").State()
			if !reflect.DeepEqual(s, l.State()) || s.Newest != 2 || len(s.Retained) != 2 {
				t.Errorf("store %+v, leader %+v", s, l.State())
			}
		})
	}
}

func TestRetryOfTheStoreResolvesItsOwnPuts(t *testing.T) {
	for seed := range uint64(20) {
		simulate(t, seed, func(ctx context.Context, w world.World) {
			mem, inj := store.NewMem(), store.NewInjector(w)
			inj.Add(store.Rule{Name: "lost", Ops: []string{history.OpPut}, Prefix: EntryPrefix, Share: 0.5, Status: 500})
			inj.Add(store.Rule{Name: "slow", Ops: []string{history.OpPut, history.OpGet}, Prefix: EntryPrefix, Share: 0.3, Status: 503})
			b := store.WithRetry(store.WithFaults(mem, inj, w), store.DefaultRetryPolicy(), w)
			l, err := OpenLog(ctx, w, b, "a")
			must(t, err)
			_, err = l.TakeOver(ctx)
			must(t, err)
			for id := uint64(1); id <= 20; id++ {
				err := l.Complete(ctx, id, MetadataKey(id, 1))
				there := open(t, ctx, w, mem, "x").State()
				if (there.Newest == id) != (err == nil) {
					t.Fatalf("seed %d, checkpoint %d: error %v, and the newest in the store is %d", seed, id, err, there.Newest)
				}
			}
		})
	}
}

func TestDamagedLogIsRefused(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		mem := store.NewMem()
		l := open(t, ctx, w, mem, "a")
		_, err := l.TakeOver(ctx)
		must(t, err)
		for id := range uint64(40) {
			must(t, l.Complete(ctx, id+1, MetadataKey(id+1, 1)))
		}
		body, err := mem.Get(ctx, EntryKey(7))
		must(t, err)
		mem.Delete(ctx, []string{EntryKey(7)})
		if _, err := OpenLog(ctx, w, mem, "x"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("gap: %v", err)
		}
		body[3] ^= 1
		must(t, mem.Put(ctx, EntryKey(7), body, store.PutOptions{}))
		entries, err := ReadEntries(ctx, w, mem, 0)
		if !errors.Is(err, store.ErrCorrupt) || len(entries) != 6 {
			t.Errorf("damage: %v, %d entries before it", err, len(entries))
		}
	})
}

func TestReadChecksWhoseMetadataItIs(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, _ world.World) {
		mem := store.NewMem()
		m := sample()
		must(t, mem.Put(ctx, MetadataKey(42, 2), Encode(m), store.PutOptions{}))
		must(t, mem.Put(ctx, MetadataKey(43, 2), Encode(m), store.PutOptions{}))
		if c, err := Read(ctx, mem, MetadataKey(42, 2)); err != nil || c.Metadata.ID != 42 || c.Object.CRC32C != store.CRC32C(Encode(m)) {
			t.Errorf("%+v, %v", c, err)
		}
		if _, err := Read(ctx, mem, MetadataKey(43, 2)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("metadata of another checkpoint: %v", err)
		}
		if _, err := Read(ctx, mem, MetadataKey(44, 2)); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("missing: %v", err)
		}
	})
}

func TestCompletedStoreRetainsTheNewest(t *testing.T) {
	s := NewCompletedStore(2)
	if s.Newest() != nil || s.Lowest() != 0 {
		t.Error("not empty")
	}
	for id := uint64(1); id <= 4; id++ {
		old := s.Add(&Completed{Metadata: &Metadata{ID: id}})
		if id <= 2 && len(old) > 0 || id > 2 && (len(old) != 1 || old[0].Metadata.ID != id-2) {
			t.Errorf("with %d go %v", id, old)
		}
	}
	if s.Newest().Metadata.ID != 4 || s.Lowest() != 3 || len(s.List()) != 2 {
		t.Errorf("retained %d to %d", s.Lowest(), s.Newest().Metadata.ID)
	}
}
