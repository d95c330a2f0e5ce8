package savepoint

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

var update = flag.Bool("update", false, "write the golden file anew")

const golden = "testdata/canonical-1.hex"

// state is what the golden file holds: two states in three key groups, one of them with a position and nothing else.
func state() (s Source, text string) {
	specs := []backend.StateSpec{backend.Spec("count", backend.Value), backend.Spec("recent", backend.List)}
	groups := map[string][][2]string{
		"8/0": {{"key-a", "one"}, {"key-b", ""}},
		"8/1": {{"key-a\x00\x00\x00\x00\x00\x00\x00\x04", "first"}, {"key-a\x00\x00\x00\x00\x00\x00\x00\x07", strings.Repeat("long ", 40)}},
		"9/1": {{"key-c\x00\x00\x00\x00\x00\x00\x00\x00", "only"}},
	}
	s = Source{
		Operator: "count", Subtask: "count-1", Range: keygroup.Range{From: 8, To: 12}, States: specs, Positions: []uint64{8, 1, 0, 42},
		Scan: func(g keygroup.ID, state int, f func(key, value []byte) bool) error {
			for _, e := range groups[fmt.Sprintf("%d/%d", g, state)] {
				if !f([]byte(e[0]), []byte(e[1])) {
					break
				}
			}
			return nil
		},
	}
	for i, position := range s.Positions {
		g := s.Range.From + keygroup.ID(i)
		if position > 0 {
			text += fmt.Sprintf("group %d position %d\n", g, position)
		}
		for st, spec := range specs {
			for _, e := range groups[fmt.Sprintf("%d/%d", g, st)] {
				text += fmt.Sprintf("group %d %s %s access %d %q %q\n", g, spec.Name, spec.Type, spec.Access, e[0], e[1])
			}
		}
	}
	return s, text
}

// reader is a Loader that writes down what it is given.
type reader struct {
	specs []backend.StateSpec
	text  strings.Builder
}

func (r *reader) Register(spec backend.StateSpec) (backend.StateID, error) {
	if i := slices.Index(r.specs, spec); i >= 0 {
		return backend.StateID(i), nil
	}
	r.specs = append(r.specs, spec)
	return backend.StateID(len(r.specs) - 1), nil
}

func (r *reader) Position(g keygroup.ID, next uint64) error {
	if next > 0 {
		fmt.Fprintf(&r.text, "group %d position %d\n", g, next)
	}
	return nil
}

func (r *reader) Load(a backend.Addr, value []byte) error {
	spec := r.specs[a.State]
	fmt.Fprintf(&r.text, "group %d %s %s access %d %q %q\n", a.Group, spec.Name, spec.Type, spec.Access, a.Key, value)
	return nil
}

func inWorld(t *testing.T, f func(ctx context.Context, e backend.WorkerEnv, mem *store.Mem) error) {
	t.Helper()
	w, mem := world.NewSim(world.SimOptions{Seed: 1}), store.NewMem()
	err := w.Run(func(ctx context.Context) error {
		return f(ctx, backend.WorkerEnv{World: w, Bucket: mem, Worker: "worker-0", Attempt: 1, Failpoints: failpoint.New()}, mem)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestGolden: what version 1 wrote can be read for ever, and what is written now is the same but for how it is compressed.
func TestGolden(t *testing.T) {
	inWorld(t, func(ctx context.Context, e backend.WorkerEnv, mem *store.Mem) error {
		s, want := state()
		o := backend.SavepointOptions{ID: 5, Form: backend.Canonical, Names: func(n uint64) string { return fmt.Sprintf("savepoint/5/count-1/%d", n) }}
		p, err := Write(ctx, e, o, 0, s)
		if err != nil {
			return err
		}
		if len(p.Handle.Base) != 1 || p.Handle.Base[0].Groups != s.Range || p.Handle.Backend != backend.Canonical {
			t.Fatalf("handle %+v", p.Handle)
		}
		body, err := mem.Get(ctx, p.Handle.Base[0].Key)
		if err != nil {
			return err
		}
		if *update {
			if err := os.WriteFile(golden, []byte(hex.Dump(body)), 0o644); err != nil {
				return err
			}
		}
		old := backendtest.Undump(t, golden)
		if a, b := plain(t, body), plain(t, old); a != b {
			t.Errorf("written now:\n%s\nin the golden file:\n%s", a, b)
		}
		ref := backend.ObjectRef{Key: "savepoint/5/count-1/old", Bytes: int64(len(old)), CRC32C: store.CRC32C(old), Length: int64(len(old)), Groups: s.Range}
		if err := mem.Put(ctx, ref.Key, old, store.PutOptions{}); err != nil {
			return err
		}
		h := backend.StateHandle{Backend: backend.Canonical, Range: s.Range, Base: []backend.ObjectRef{ref}}
		r := &reader{}
		n, err := Read(ctx, e, []backend.StateHandle{h}, s.Range, r)
		if err != nil {
			return err
		}
		if got := r.text.String(); got != want || n != ref.Bytes {
			t.Errorf("%d bytes read:\n%s\nwant:\n%s", n, got, want)
		}
		part := &reader{}
		if _, err := Read(ctx, e, []backend.StateHandle{h}, keygroup.Range{From: 9, To: 11}, part); err != nil {
			return err
		}
		if got := part.text.String(); !strings.HasPrefix(got, "group 9 position 1\ngroup 9 recent") || strings.Contains(got, "group 8") || strings.Contains(got, "group 11") {
			t.Errorf("key groups 9 and 10:\n%s", got)
		}
		return nil
	})
}

// plain is an object without its compression and what depends on it.
func plain(t *testing.T, b []byte) string {
	t.Helper()
	text, err := canonical.Plain("object", b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOnlyWhatIsNeededIsRead: of a large object a subtask that needs few key groups reads the footer and these.
func TestOnlyWhatIsNeededIsRead(t *testing.T) {
	inWorld(t, func(ctx context.Context, e backend.WorkerEnv, mem *store.Mem) error {
		value := make([]byte, 192<<10)
		rng := e.World.Rand("test")
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		s := Source{Operator: "count", Subtask: "count-0", Range: keygroup.Range{To: 64}, States: []backend.StateSpec{backend.Spec("v", backend.Value)},
			Positions: make([]uint64, 64), Scan: func(g keygroup.ID, _ int, f func(key, value []byte) bool) error {
				f([]byte("a"), value[:len(value)/2]) // two halves that compression finds nothing in common in
				f([]byte("b"), value[len(value)/2:])
				return nil
			}}
		p, err := Write(ctx, e, backend.SavepointOptions{ID: 1, Form: backend.Canonical, Names: func(n uint64) string { return fmt.Sprint(n) }}, 0, s)
		if err != nil {
			return err
		}
		if n := len(p.Handle.Base); n != 2 || p.Objects != n || p.Checkpointed < 8<<20 {
			t.Errorf("%d bytes in %d objects", p.Checkpointed, n)
		}
		few := keygroup.Range{From: 10, To: 14}
		narrowed, _ := p.Handle.Narrow(few)
		for _, h := range []backend.StateHandle{p.Handle, narrowed} {
			r := &reader{}
			n, err := Read(ctx, e, []backend.StateHandle{h}, few, r)
			if err != nil {
				return err
			}
			if got := strings.Count(r.text.String(), "\n"); got != 8 || n > 900<<10 {
				t.Errorf("%d bytes read for %d elements of key groups %v", n, got, h.Range)
			}
		}
		return nil
	})
}
