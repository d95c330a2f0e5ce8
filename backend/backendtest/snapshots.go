package backendtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// fill makes n random changes.
func (b bound) fill(n int) {
	for range n {
		b.change()
		b.j.breathe()
	}
}

// emptyState is restorable like any other.
func emptyState(h *harness) {
	b := h.open(2, nil).bind(newModel())
	c := b.j.checkpoint(b.m)
	b.j.close()
	b = h.open(3, c.handles).bind(newModel())
	b.compare()
	b.fill(50)
	for s := range b.m.specs { // emptied again
		for g := range keygroup.ID(h.max) {
			for _, key := range slices.Sorted(maps.Keys(b.m.elems[s][g])) {
				b.delete(element{s, g, key})
			}
		}
	}
	b.compare()
	c = b.j.checkpoint(b.m)
	b.j.close()
	b = h.open(1, c.handles).bind(newModel())
	b.compare()
	b.j.close()
}

// largeValues span what backends may think of as blocks, files and objects.
func largeValues(h *harness) {
	b := h.open(2, nil).bind(newModel())
	for i, n := range []int{100 << 10, 300 << 10, 1 << 20, 3 << 20, 1, 0} {
		value := h.randomBytes(n)
		b.put(element{valueState, keygroup.ID(i), "large"}, value)
		b.append(element{listState, keygroup.ID(i), "large"}, value)
		b.j.breathe()
	}
	b.put(element{valueState, 1, "large"}, "now small")
	b.put(element{valueState, 2, "large"}, string(make([]byte, 1<<20-1)))
	b.delete(element{valueState, 3, "large"})
	b.compare()
	c := b.j.checkpoint(b.m)
	b.put(element{valueState, 2, "large"}, string(make([]byte, 1<<20+9)))
	b.compare()
	b.j.close()
	b = h.open(3, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}

// snapshotIsolation: what is written after a snapshot is not in it, whatever is written while it is persisted.
func snapshotIsolation(h *harness) {
	b := h.open(2, nil).bind(newModel())
	b.fill(600)
	var taken []*pending
	for range 3 {
		taken = append(taken, b.j.begin(b.m))
		b.fill(200)
	}
	for _, p := range taken {
		b.j.start(p)
		b.fill(300)
		b.j.sleep(time.Millisecond)
		b.fill(100)
	}
	var done []*checkpointed
	for _, p := range taken {
		c, err := b.j.finish(p)
		h.ok(err)
		done = append(done, c)
		b.fill(200)
	}
	b.compare()
	b.j.close()
	for i, c := range done {
		r := h.open(i+1, c.handles).bind(c.model.clone())
		r.compare()
		r.fill(100)
		r.compare()
		r.j.close()
	}
}

// rescale goes up and down, with a checkpoint and changes between two steps and without.
func rescale(h *harness) {
	b := h.open(1, nil).bind(newModel())
	b.fill(1500)
	c := b.j.checkpoint(b.m)
	b.j.close()
	for _, p := range []int{3, 2, 5, 1, 4} {
		b = h.open(p, c.handles).bind(c.model.clone())
		b.compare()
		b.fill(300)
		c = b.j.checkpoint(b.m)
		b.j.close()
	}
	handles := c.handles
	for _, p := range []int{3, 2, 5, 1, 7} { // nothing between: handles are only dealt out again
		handles = h.dealt(p, handles)
		b = h.open(p, handles).bind(c.model.clone())
		b.compare()
		b.j.close()
	}
	b = h.open(2, handles).bind(c.model.clone())
	b.fill(200)
	b.compare()
	last := b.j.checkpoint(b.m)
	b.j.close()
	b = h.open(3, last.handles).bind(last.model.clone())
	b.compare()
	b.j.close()
	b = h.open(3, c.handles).bind(c.model.clone()) // the older one is as it was
	b.compare()
	b.j.close()
}

// mixedHandles: a key group is read from a handle only if both the handle's range and the object's key groups have it. Here two
// handles say different things of each key group, and one or the other narrowing decides which of them holds.
func mixedHandles(h *harness) {
	b := h.open(1, nil).bind(newModel())
	b.fill(400)
	older := b.j.checkpoint(b.m)
	b.fill(400)
	newer := b.j.checkpoint(b.m)
	b.j.close()
	middle := keygroup.ID(h.max / 2)
	want := newer.model.clone()
	for s := range want.specs {
		for g := range middle {
			want.elems[s][g] = older.model.elems[s][g]
		}
	}
	low, high := keygroup.Range{To: middle}, keygroup.Range{From: middle, To: keygroup.ID(h.max)}
	for _, how := range []func(backend.StateHandle, keygroup.Range) backend.StateHandle{rangeOnly, partsOnly} {
		handles := []backend.StateHandle{how(older.handles[0], low), how(newer.handles[0], high)}
		for p := 1; p <= 3; p++ {
			b := h.open(p, handles).bind(want.clone())
			b.compare()
			b.j.close()
		}
	}
}

// rangeOnly narrows a handle and leaves its parts as they are; partsOnly the other way round.
func rangeOnly(h backend.StateHandle, r keygroup.Range) backend.StateHandle {
	h.Range = r
	return h
}

func partsOnly(h backend.StateHandle, r keygroup.Range) backend.StateHandle {
	n, _ := h.Narrow(r)
	n.Range = h.Range
	return n
}

// abortAndPersistAgain: a checkpoint that does not complete leaves no trace in those after it.
func abortAndPersistAgain(h *harness) {
	b := h.open(2, nil).bind(newModel())
	var c *checkpointed
	for round := range 4 {
		b.fill(200)
		p := b.j.begin(b.m)
		b.fill(100)
		if round%2 == 0 {
			b.j.start(p)
		}
		b.j.abort(p)
		b.fill(100)
		c = b.j.checkpoint(b.m)
		b.fill(50)
		b.compare()
	}
	p := b.j.begin(b.m)
	b.fill(50)
	b.j.abort(p)
	b.j.close()
	b = h.open(3, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}

// storeFailure: a persist that fails reports it, and the next one is whole.
func storeFailure(h *harness) {
	broken := &failingBucket{Bucket: h.mem}
	h.bucket = broken
	b := h.open(2, nil).bind(newModel())
	b.fill(300)
	c := b.j.checkpoint(b.m)
	for round := range 3 {
		b.fill(100)
		broken.failing = true
		_, err := b.j.finish(b.j.begin(b.m))
		h.want(errors.Is(err, store.ErrUnavailable), "round %d: persist over a broken store gives %v", round, err)
		b.fill(100)
		broken.failing = false
		c = b.j.checkpoint(b.m)
		b.compare()
	}
	b.j.close()
	b = h.open(3, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}

// objectsOf is the parts of a checkpoint.
func objectsOf(c *checkpointed) []backend.ObjectRef {
	var refs []backend.ObjectRef
	for _, h := range c.handles {
		refs = append(append(refs, h.Base...), h.Delta...)
	}
	return refs
}

// smallCheckpoint is one of a little state, with the attempt ended.
func smallCheckpoint(h *harness) *checkpointed {
	b := h.open(2, nil).bind(newModel())
	b.fill(400)
	c := b.j.checkpoint(b.m)
	b.j.close()
	h.want(len(objectsOf(c)) > 0, "checkpoint has no objects")
	return c
}

// damagedObject: a flipped bit in a part, wherever it is, or a cut, is an error that names the object.
func damagedObject(h *harness) {
	h.damaged(smallCheckpoint(h))
}

// damaged damages each part of c.
func (h *harness) damaged(c *checkpointed) {
	for _, ref := range objectsOf(c) {
		body, err := h.mem.Get(h.ctx, ref.Key)
		h.ok(err)
		for i := range 12 {
			bad := append([]byte(nil), body...)
			at := ref.Offset + ref.Length*int64(i)/12
			switch {
			case i == 11:
				at = ref.Offset + ref.Length - 1
			case i > 0:
				at = min(ref.Offset+ref.Length-1, at+h.rng.Int64N(ref.Length/12+1))
			}
			bad[at] ^= 1 << h.rng.IntN(8)
			h.replaced(ref.Key, bad, func() { h.wantOpenFails(c, store.ErrCorrupt, ref.Key) })
		}
		for _, n := range []int64{0, ref.Offset + ref.Length/2, ref.Offset + ref.Length - 1} {
			h.replaced(ref.Key, body[:n], func() { h.wantOpenFails(c, store.ErrCorrupt, ref.Key) })
		}
	}
	b := h.open(2, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}

// missingObject is an error that names it.
func missingObject(h *harness) {
	c := smallCheckpoint(h)
	for _, ref := range objectsOf(c) {
		body, err := h.mem.Get(h.ctx, ref.Key)
		h.ok(err)
		h.ok(h.mem.Delete(h.ctx, []string{ref.Key})[0].Err)
		h.wantOpenFails(c, store.ErrNotExist, ref.Key)
		h.ok(h.mem.Put(h.ctx, ref.Key, body, store.PutOptions{}))
	}
}

// replaced runs f while an object has another body.
func (h *harness) replaced(key string, body []byte, f func()) {
	old, err := h.mem.Get(h.ctx, key)
	h.ok(err)
	for _, b := range [][]byte{body, old} {
		h.ok(h.mem.Delete(h.ctx, []string{key})[0].Err)
		h.ok(h.mem.Put(h.ctx, key, b, store.PutOptions{}))
		if f != nil {
			f()
			f = nil
		}
	}
}

// wantOpenFails wants that with parallelism 1, 2 and 3 somebody fails to open, on workers that have nothing on their disks.
func (h *harness) wantOpenFails(c *checkpointed, kind error, key string) {
	for p := 1; p <= 3; p++ {
		h.disks = nil
		j, err := h.tryOpen(p, c.handles)
		if err == nil {
			j.close()
		}
		h.wantNamed(fmt.Errorf("parallelism %d: %w", p, orNone(err)), kind, key)
	}
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

// closeWhilePersisting: the end of an attempt ends what runs under it, and nothing is left.
func closeWhilePersisting(h *harness) {
	b := h.open(3, nil).bind(newModel())
	b.fill(500)
	c := b.j.checkpoint(b.m)
	b.fill(200)
	p := b.j.begin(b.m)
	b.j.start(p)
	b.fill(20)
	for _, s := range b.j.subtasks { // the loops end first here
		h.ok(s.loop.Close(h.ctx))
	}
	for _, s := range p.snapshots {
		s.Release()
	}
	b.j.close()
	b = h.open(2, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}
