package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// TestDamagedReadsAreMadeAgain: whichever read of the coordinator log or of a metadata object brings a flipped byte,
// wherever that is, what is understood is what was written.
func TestDamagedReadsAreMadeAgain(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		mem := store.NewMem()
		l := open(t, ctx, w, mem, "a")
		_, err := l.TakeOver(ctx)
		must(t, err)
		m := sample()
		key := MetadataKey(m.ID, m.Term)
		must(t, mem.Put(ctx, key, Encode(m), store.PutOptions{}))
		must(t, l.Reserve(ctx, 1))
		must(t, l.Complete(ctx, m.ID, key))
		want, err := Read(ctx, mem, key)
		must(t, err)

		injector := store.NewInjector(w)
		b := store.WithFaults(mem, injector, w)
		whole := func(what string) {
			if got := open(t, ctx, w, b, "b").State(); !reflect.DeepEqual(got, l.State()) {
				t.Errorf("%s: log %+v, want %+v", what, got, l.State())
			}
			if got, err := Fetch(ctx, w, b, key); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: metadata %+v, %v", what, got, err)
			}
		}
		for request := range int64(4) { // three entries, the metadata
			for i := range 60 {
				r := store.Rule{Name: fmt.Sprintf("%d/%d", request, i), Ops: []string{history.OpGet}, Request: request + 1, Flip: true}
				remove := injector.Add(r)
				whole(r.Name)
				remove()
				if injector.Hits(r.Name) != 1 {
					t.Errorf("%s was not hit", r.Name)
				}
			}
		}
		for i := range 20 {
			remove := injector.Add(store.Rule{Name: fmt.Sprint("share ", i), Ops: []string{history.OpGet}, Share: 0.3, Flip: true})
			whole("a share of the reads")
			remove()
		}
		remove := injector.Add(store.Rule{Name: "all", Ops: []string{history.OpGet}, Flip: true})
		if _, err := Fetch(ctx, w, b, key); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt) {
			t.Errorf("every read damaged otherwise: %v", err)
		}
		remove()
	})
}

// TestDamageAtRestIsToldFromDamageOnTheWay: an object of metadata or an entry of the log that is damaged, in whichever byte, or
// cut, wherever, comes as ErrCorrupt with its key and a place.
func TestDamageAtRestIsToldFromDamageOnTheWay(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		mem := store.NewMem()
		l := open(t, ctx, w, mem, "a")
		_, err := l.TakeOver(ctx)
		must(t, err)
		m := sample()
		key := MetadataKey(m.ID, m.Term)
		must(t, mem.Put(ctx, key, Encode(m), store.PutOptions{}))
		must(t, l.Reserve(ctx, 1))
		must(t, l.Complete(ctx, m.ID, key))
		reads := map[string]func() error{key: func() error { _, err := Fetch(ctx, w, mem, key); return err }}
		for seq := uint64(1); seq <= 3; seq++ {
			reads[EntryKey(seq)] = func() error { _, err := OpenLog(ctx, w, mem, "b"); return err }
		}
		replace := func(key string, body []byte) {
			must(t, mem.Delete(ctx, []string{key})[0].Err)
			must(t, mem.Put(ctx, key, body, store.PutOptions{}))
		}
		for key, read := range reads {
			body, err := mem.Get(ctx, key)
			must(t, err)
			must(t, read())
			for at := range body {
				flipped := append([]byte(nil), body...)
				flipped[at] ^= 0x20
				for _, bad := range [][]byte{flipped, body[:at]} {
					replace(key, bad)
					from := w.Now()
					if err := read(); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "offset ") {
						t.Errorf("%s, byte %d, %d bytes: %v", key, at, len(bad), err)
					}
					if took := w.Now() - from; took.Seconds() > 0.5 {
						t.Errorf("byte %d: %v until that was told", at, took)
					}
				}
			}
			replace(key, body)
		}
	})
}

// TestResolveIsNotFooledByDamage: a put that got through is not taken for lost because its object was read with a flipped byte.
func TestResolveIsNotFooledByDamage(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		for i := range 200 {
			injector := store.NewInjector(w)
			injector.Add(store.Rule{Name: fmt.Sprint("lost ", i), Ops: []string{history.OpPut}, Request: 1, LostAck: true})
			injector.Add(store.Rule{Name: fmt.Sprint("flip ", i), Ops: []string{history.OpGet}, Share: 0.5, Flip: true})
			b := store.WithRetry(store.WithFaults(store.NewMem(), injector, w), store.RetryPolicy{Attempts: 8, Stream: fmt.Sprint(i)}, w)
			if err := b.Put(ctx, "k", []byte("the body of an object that is long enough for readings to differ"), store.PutOptions{IfNotExist: true}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}
