package heap

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

var update = flag.Bool("update", false, "write the golden file anew")

// fillGolden makes the state that the golden files hold: two states in three key groups, one of them with a position and nothing
// else. The schema is that of the first state.
func fillGolden(k backend.Keyed, schema backend.Schema) error {
	var err error
	do := func(e error) {
		if err == nil {
			err = e
		}
	}
	spec := backend.Spec("count", backend.Value)
	spec.Schema = schema
	count, e := k.Register(spec)
	do(e)
	recent, e := k.Register(backend.Spec("recent", backend.List))
	do(e)
	at := func(s backend.StateID, g keygroup.ID, key string) backend.Addr {
		return backend.Addr{State: s, Group: g, Key: []byte(key)}
	}
	add := func(a backend.Addr, value string) { _, e := k.Append(a, []byte(value)); do(e) }
	do(k.Put(at(count, 8, "key-a"), []byte("one")))
	do(k.Put(at(count, 8, "key-b"), nil))
	add(at(recent, 8, "key-a"), "first")
	add(at(recent, 8, "key-a"), strings.Repeat("long ", 40))
	add(at(recent, 9, "key-c"), "only")
	add(at(recent, 11, "key-d"), "gone")
	do(k.DeletePrefix(at(recent, 11, "key-d")))
	return err
}

// text is all of a state.
func text(k *keyed) string {
	var out strings.Builder
	fmt.Fprintf(&out, "positions %d\n", k.positions)
	for id, spec := range k.States() {
		for g := k.rng.From; g < k.rng.To; g++ {
			k.Scan(backend.StateID(id), g, nil, func(key, value []byte) bool {
				fmt.Fprintf(&out, "group %d %s %s access %d %v %q %q\n", g, spec.Name, spec.Type, spec.Access, spec.Schema, key, value)
				return true
			})
		}
	}
	return out.String()
}

// TestGolden: what each version wrote can be read for ever, and what is written now is the same but for how it is compressed.
func TestGolden(t *testing.T) {
	tryGolden(t, "testdata/snapshot-1.hex", backend.Schema{})
	tryGolden(t, "testdata/snapshot-2.hex", backend.Schema{Serializer: "counter", Version: 3})
}

func tryGolden(t *testing.T, golden string, schema backend.Schema) {
	t.Helper()
	mem := store.NewMem()
	inSim(t, mem, Options{}, func(w *backendtest.Worker, h *Backend) error {
		r := keygroup.Range{From: 8, To: 12}
		opened, err := h.Open(w.Ctx, options(r))
		if err != nil {
			return err
		}
		if err := fillGolden(opened, schema); err != nil {
			return err
		}
		p, err := persist(w.Ctx, opened.(*keyed))
		if err != nil {
			return err
		}
		body, err := mem.Get(w.Ctx, p.Handle.Base[0].Key)
		if err != nil {
			return err
		}
		if *update {
			if err := os.WriteFile(golden, []byte(hex.Dump(body)), 0o644); err != nil {
				return err
			}
		}
		old := backendtest.Undump(t, golden)
		now, err := format.Plain("now", body)
		if err != nil {
			return err
		}
		if then, err := format.Plain("golden", old); err != nil || now != then {
			t.Errorf("written now:\n%s\nin the golden file:\n%s (%v)", now, then, err)
		}
		ref := backend.ObjectRef{Key: "old", Bytes: int64(len(old)), CRC32C: store.CRC32C(old), Length: int64(len(old)), Groups: r}
		if err := mem.Put(w.Ctx, ref.Key, old, store.PutOptions{}); err != nil {
			return err
		}
		again, err := h.Open(w.Ctx, options(r, backend.StateHandle{Backend: Name, Range: r, Base: []backend.ObjectRef{ref}}))
		if err != nil {
			return err
		}
		if got, want := text(again.(*keyed)), text(opened.(*keyed)); got != want || strings.Count(want, "\n") != 6 || !strings.Contains(got, schema.String()) {
			t.Errorf("read:\n%s\nwant:\n%s", got, want)
		}
		return nil
	})
}
