package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/world"
)

// kinds are the faults that one rule of the store's injector makes up.
var kinds = map[string]faults.Constructor{
	"store-errors": faults.NewStoreErrors, "store-latency": faults.NewStoreLatency, "store-outage": faults.NewStoreOutage,
	"lost-ack": faults.NewLostAck, "cut-body": faults.NewCutBody, "flipped-byte": faults.NewFlippedByte,
}

// site is a store with a fault that is in force.
type site struct {
	w      world.World
	mem    *store.Mem
	bucket store.Bucket
	active faults.Active
	proofs []string
}

// struck runs f with a fault of the kind in force, in a simulated world.
func struck(t *testing.T, kind, with string, f func(ctx context.Context, s *site)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 3})
	err := w.Run(func(ctx context.Context) error {
		s := &site{w: w, mem: store.NewMem()}
		injector := store.NewInjector(w)
		s.bucket = store.WithFaults(s.mem, injector, w)
		fault, err := kinds[kind](faults.Spec{ID: "f", Where: "store", With: json.RawMessage(with)})
		if err != nil {
			return err
		}
		if err := s.mem.Put(ctx, "there", []byte("as it was written"), store.PutOptions{}); err != nil {
			return err
		}
		err = fault.Inject(ctx, faults.Env{World: w, Injector: injector, Probe: s.bucket,
			InForce: func(a faults.Active) { s.active = a },
			Prove:   func(_ context.Context, evidence string) { s.proofs = append(s.proofs, evidence) }})
		if err == nil {
			f(ctx, s)
		}
		return err
	})
	if err != nil {
		t.Errorf("%s %s: %v", kind, with, err)
	}
}

// TestStoreFaultsStrikeAndHeal: a fault is proven by its effect and not before, and once healed nothing is touched any more.
func TestStoreFaultsStrikeAndHeal(t *testing.T) {
	body := []byte("body")
	for _, c := range []struct {
		kind, with string
		misses     func(ctx context.Context, b store.Bucket) error // what the fault leaves alone
		strikes    func(ctx context.Context, s *site) error
		proof      string
	}{
		{"store-errors", `{"op":"put","status":503}`,
			func(ctx context.Context, b store.Bucket) error { _, err := b.Get(ctx, "there"); return err },
			func(ctx context.Context, s *site) error {
				return wants(s.bucket.Put(ctx, "k", body, store.PutOptions{}), store.ErrThrottled)
			}, "request put k failed with status 503"},
		{"store-latency", `{"op":"get","delay":"300ms"}`,
			func(ctx context.Context, b store.Bucket) error { _, err := b.Stat(ctx, "there"); return err },
			func(ctx context.Context, s *site) error {
				from := s.w.Now()
				_, err := s.bucket.Get(ctx, "there")
				if took := s.w.Now() - from; took != 300*time.Millisecond {
					return fmt.Errorf("took %v", took)
				}
				return err
			}, "request get there was held up"},
		{"store-outage", `{"prefix":"th"}`,
			func(ctx context.Context, b store.Bucket) error { _, err := b.Uploads(ctx, ""); return err },
			func(ctx context.Context, s *site) error {
				_, get := s.bucket.Get(ctx, "there")
				return errors.Join(wants(get, store.ErrUnavailable), wants(s.bucket.Put(ctx, "th", body, store.PutOptions{}), store.ErrAmbiguous),
					wants(s.bucket.Delete(ctx, []string{"there"})[0].Err, store.ErrUnavailable), s.untouched(ctx))
			}, "request get there failed"},
		{"lost-ack", ``,
			// An answer that was no success is not lost: the put had no effect.
			func(ctx context.Context, b store.Bucket) error {
				return wants(b.Put(ctx, "there", body, store.PutOptions{IfNotExist: true}), store.ErrPrecondition)
			},
			func(ctx context.Context, s *site) error {
				err := wants(s.bucket.Put(ctx, "k", body, store.PutOptions{IfNotExist: true}), store.ErrAmbiguous)
				there, gerr := s.mem.Get(ctx, "k")
				if !bytes.Equal(there, body) {
					gerr = errors.Join(gerr, errors.New("the put had no effect"))
				}
				return errors.Join(err, gerr, wants(s.bucket.Delete(ctx, []string{"k"})[0].Err, store.ErrAmbiguous))
			}, "request put k had its effect, and the answer was lost"},
		{"cut-body", `{"op":"get|put"}`,
			func(ctx context.Context, b store.Bucket) error {
				_, err := b.Get(ctx, "absent")
				return wants(err, store.ErrNotExist)
			},
			func(ctx context.Context, s *site) error {
				_, err := s.bucket.Get(ctx, "there")
				_, gone := s.mem.Get(ctx, "k")
				return errors.Join(wants(err, store.ErrUnavailable), wants(s.bucket.Put(ctx, "k", body, store.PutOptions{}), store.ErrAmbiguous),
					wants(gone, store.ErrNotExist))
			}, "request get there was cut in the middle"},
		{"flipped-byte", `{"request":2}`,
			func(ctx context.Context, b store.Bucket) error { _, err := b.Get(ctx, "there"); return err },
			func(ctx context.Context, s *site) error {
				there, err := s.bucket.GetRange(ctx, "there", 3, 5)
				if differing(there, []byte("it wa")) != 1 {
					return fmt.Errorf("%q has not one flipped byte, %v", there, err)
				}
				return errors.Join(err, s.untouched(ctx))
			}, "request get there brought a flipped byte"},
	} {
		struck(t, c.kind, c.with, func(ctx context.Context, s *site) {
			if err := c.misses(ctx, s.bucket); err != nil || len(s.proofs) > 0 {
				t.Errorf("%s: touched what it should not: %v, %q", c.kind, err, s.proofs)
			}
			if err := c.strikes(ctx, s); err != nil || len(s.proofs) != 1 || s.proofs[0] != c.proof {
				t.Errorf("%s: %v, proofs %q, want %q", c.kind, err, s.proofs, c.proof)
			}
			for range 2 { // healing is idempotent
				if evidence, err := s.active.Heal(ctx); err != nil || !strings.Contains(evidence, "passed") {
					t.Errorf("%s: heal: %q, %v", c.kind, evidence, err)
				}
			}
			err := s.bucket.Put(ctx, "after", body, store.PutOptions{IfNotExist: true})
			there, gerr := s.bucket.Get(ctx, "there")
			if err != nil || gerr != nil || string(there) != "as it was written" || len(s.proofs) != 1 {
				t.Errorf("%s: after healing: %v, %v, %q", c.kind, err, gerr, there)
			}
			for a, err := range s.mem.List(ctx, "", "") {
				if err != nil || strings.Contains(a.Key, "probe") {
					t.Errorf("%s: left %s, %v", c.kind, a.Key, err)
				}
			}
		})
	}
}

// TestHealSeesWhatIsStillThere: the probe does not pass as long as another fault is in force.
func TestHealSeesWhatIsStillThere(t *testing.T) {
	struck(t, "flipped-byte", "", func(ctx context.Context, s *site) {
		other := s.active
		injector := store.NewInjector(s.w)
		remove := injector.Add(store.Rule{Name: "other", Flip: true})
		probe := store.WithFaults(s.bucket, injector, s.w)
		fault, err := faults.NewFlippedByte(faults.Spec{ID: "g", Where: "store"})
		if err != nil {
			t.Error(err)
			return
		}
		err = fault.Inject(ctx, faults.Env{World: s.w, Injector: injector, Probe: probe,
			InForce: func(a faults.Active) { other = a }, Prove: func(context.Context, string) {}})
		if _, herr := other.Heal(ctx); err != nil || herr == nil {
			t.Errorf("inject %v; heal says nothing", err)
		}
		remove()
		if _, err := s.active.Heal(ctx); err != nil {
			t.Error(err)
		}
		if _, err := other.Heal(ctx); err != nil {
			t.Error(err)
		}
	})
}

func (s *site) untouched(ctx context.Context) error {
	there, err := s.mem.Get(ctx, "there")
	if string(there) != "as it was written" {
		err = errors.Join(err, fmt.Errorf("the object is %q", there))
	}
	return err
}

func differing(a, b []byte) (n int) {
	if len(a) != len(b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func wants(err, kind error) error {
	if !errors.Is(err, kind) {
		return fmt.Errorf("error %v, want %w", err, kind)
	}
	return nil
}

func TestStoreFaultsRefuseWhatTheyCannotDo(t *testing.T) {
	for _, c := range []struct{ kind, where, with, want string }{
		{"store-outage", "store", `{"share":"50%"}`, "share is no option of this fault; its options are op, prefix"},
		{"store-outage", "worker/1", ``, `where "worker/1" is not store`},
		{"lost-ack", "store", `{"op":"get"}`, "op get: this fault touches put, delete, abort only"},
		{"lost-ack", "store", `{"status":503}`, "status is no option of this fault"},
		{"cut-body", "store", `{"op":"put|stat"}`, "op stat: this fault touches put, get, list only"},
		{"cut-body", "store", `{"request":-1}`, "request -1 is negative"},
		{"flipped-byte", "store", `{"op":"put"}`, "op put: this fault touches get only"},
		{"flipped-byte", "store", `{"op":"got"}`, "got"},
		{"flipped-byte", "store", `{"bytes":2}`, "bytes"},
		{"flipped-byte", "store", `{"share":"0%"}`, "share is 0"},
		{"store-errors", "store", `{"delay":"1s"}`, "delay is no option of this fault"},
		{"store-latency", "store", `{"status":503}`, "status is no option of this fault"},
	} {
		_, err := kinds[c.kind](faults.Spec{ID: "f", Where: c.where, With: json.RawMessage(c.with)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: error %v, want one with %q", c.kind, c.with, err, c.want)
		}
	}
}
