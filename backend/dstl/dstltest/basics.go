package dstltest

import (
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// sequenceNumbers: they advance when there is something to end, and only then.
func sequenceNumbers(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	//lint:ignore SA4000 asking twice is the test
	h.want(w.next() == 0 && w.next() == 0, "asking for the next number advances an empty log")
	w.put("a", 5)
	//lint:ignore SA4000 asking twice is the test
	h.want(w.next() == 1 && w.next() == 1, "asking twice advances twice")
	w.put("b", 5)
	w.put("c", 5)
	w.checkpoint(0, 1)
	h.want(w.next() == 2, "persist did not end the active change set")
	w.checkpoint(0, 2)
	h.want(w.next() == 2, "persist of nothing new advances")
	h.ok(w.Truncate(h.worker.Ctx, 1))
	h.want(w.next() == 2 && w.Lowest() == 1, "truncate advances, or lowest is %d", w.Lowest())
	h.ok(w.Truncate(h.worker.Ctx, 0))
	h.want(w.Lowest() == 1, "truncate went back")
	p := w.checkpoint(2, 3)
	h.want(len(p.Refs) == 0 && p.Bytes == 0, "an empty range has %d references of %d bytes", len(p.Refs), p.Bytes)
	h.ok(w.Close())
}

// wrongUse is refused.
func wrongUse(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	_, err := h.log.Writer(dstl.WriterOptions{Subtask: "count-0", Range: groups})
	h.want(err != nil, "the same subtask has two writers")
	h.want(w.Append(dstl.OpPut, backend.Addr{Group: groups.To}, 0, nil) != nil, "append outside of the range")
	w.put("a", 1)
	to := w.next()
	_, err = w.Persist(h.worker.Ctx, to+1, 1)
	h.is(err, dstl.ErrAhead)
	h.is(w.Truncate(h.worker.Ctx, to+1), dstl.ErrAhead)
	h.ok(w.Truncate(h.worker.Ctx, to))
	_, err = w.Persist(h.worker.Ctx, 0, 1)
	h.is(err, dstl.ErrTruncated)
	w.cut(to, 2)
	_, err = w.Persist(h.worker.Ctx, 0, 2)
	h.want(err != nil, "persist from elsewhere than the cut")
	h.ok(w.Close())
	h.ok(w.Close())
	h.is(w.Append(dstl.OpPut, backend.Addr{Group: groups.From}, 0, nil), dstl.ErrClosed)
	_, err = w.Cut(0, 3)
	h.is(err, dstl.ErrClosed)
}

// readBack: what was persisted is read, whole and narrowed, with a reference that begins inside of an object too.
func readBack(h *harness) {
	h.open(dstl.Options{BlockSize: 200, Preemptive: 3000})
	w := h.writer("count-0")
	var cuts []uint64
	for range 10 {
		w.random(60)
		cuts = append(cuts, w.next())
	}
	for i, from := range append([]uint64{0}, cuts...) {
		p := w.checkpoint(from, uint64(i+1))
		w.restores(p.Refs, from, cuts[len(cuts)-1])
		for g := groups.From; g < groups.To; g += 3 {
			h.holds(w.at[from], p.Refs, keygroup.Range{From: g, To: g + 2}, w.state)
		}
		var narrow []backend.ObjectRef
		for _, r := range p.Refs {
			r.Groups = keygroup.Range{From: 4, To: 7}
			narrow = append(narrow, r)
		}
		h.holds(w.at[from].narrowed(keygroup.Range{From: 4, To: 7}), narrow, groups, w.state.narrowed(keygroup.Range{From: 4, To: 7}))
	}
	h.ok(w.Close())
}

// narrowReadsLess: who needs few key groups fetches little of a large part.
func narrowReadsLess(h *harness) {
	h.open(dstl.Options{PreemptiveOff: true})
	w := h.writer("count-0")
	for i := range 4000 {
		value := make([]byte, 400)
		for j := range value {
			value[j] = byte(w.rng.IntN(256))
		}
		w.append(dstl.OpPut, backend.Addr{Group: groups.From + keygroup.ID(i%groups.Len()), Key: fmt.Append(nil, i)}, value)
	}
	p := w.checkpoint(0, 1)
	quarter := keygroup.Range{From: groups.From + 2, To: groups.From + 4}
	v := &replay{state: elements{}}
	stats, err := h.log.Read(h.worker.Ctx, p.Refs, quarter, v)
	h.ok(err)
	h.want(stats.Changes == 1000 && len(v.state) == 1000, "%d changes, %d elements", stats.Changes, len(v.state))
	h.want(stats.Bytes < p.Bytes/3, "%d of %d bytes fetched for a quarter of the key groups", stats.Bytes, p.Bytes)
	h.ok(w.Close())
}

// coalesces: of many changes of a key one is stored.
func coalesces(h *harness) {
	h.open(dstl.Options{PreemptiveOff: true})
	w := h.writer("count-0")
	for range 1000 {
		w.put("hot", 100)
	}
	h.want(w.Unsent() < 400, "%d bytes for one key of 100", w.Unsent())
	p := w.checkpoint(0, 1)
	h.want(p.Bytes > 0 && p.Bytes < 400, "%d bytes stored for one key of 100", p.Bytes)
	w.restores(p.Refs, 0, 1)
	h.ok(w.Close())
}

// preemptive: enough unsent changes are uploaded without a checkpoint, and the next one uses them.
func preemptive(h *harness) {
	h.open(dstl.Options{Preemptive: 2000})
	w := h.writer("count-0")
	for i := range 40 {
		w.put(fmt.Sprint("key", i), 100)
	}
	h.settle()
	h.want(len(h.keys()) > 0, "nothing was uploaded before a checkpoint")
	h.want(w.Unsent() < 2000, "%d bytes are unsent", w.Unsent())
	p := w.checkpoint(0, 1)
	h.want(p.Preemptive > 0 && p.Preemptive < p.Bytes, "%d of %d bytes are pre-emptive", p.Preemptive, p.Bytes)
	h.want(p.Objects == len(h.keys()), "%d objects, %d are there", p.Objects, len(h.keys()))
	w.restores(p.Refs, 0, w.next())
	again := w.checkpoint(0, 2)
	h.want(again.Bytes == 0 && again.Objects == 0, "referenced again: %d bytes, %d objects", again.Bytes, again.Objects)
	h.ok(w.Close())
}

// gathered: changes that are gathered start no upload however many they are, Room tells when one is due, and Early starts it.
func gathered(h *harness) {
	h.open(dstl.Options{Preemptive: 2000})
	w, other := h.writer("count-0"), h.writer("count-1")
	room := w.Room(0)
	h.want(room == 2000 && w.Room(500) == 1500, "%d and %d bytes of room", room, w.Room(500))
	w.Early()
	for i := range 40 {
		a := backend.Addr{Group: groups.From, Key: fmt.Append(nil, "key", i)}
		w.gather(dstl.OpPut, a, make([]byte, 100))
		other.gather(dstl.OpPut, a, make([]byte, 30))
	}
	h.settle()
	h.want(len(h.keys()) == 0, "%d objects without being asked for", len(h.keys()))
	h.want(w.Room(0) <= 0 && other.Room(0) > 0, "%d and %d bytes of room after all", w.Room(0), other.Room(0))
	w.Early()
	h.want(w.Room(0) == room, "%d bytes of room after an upload", w.Room(0))
	h.want(other.Room(0) <= 0, "who has half of an upload does not join another writer's: %d bytes of room", other.Room(0))
	h.settle()
	h.want(len(h.keys()) == 1 && w.Unsent() == 0, "%d objects, %d bytes unsent", len(h.keys()), w.Unsent())
	p := w.checkpoint(0, 1)
	h.want(p.Preemptive == p.Bytes && p.Bytes > 0, "%d of %d bytes are pre-emptive", p.Preemptive, p.Bytes)
	w.restores(p.Refs, 0, 1)
	h.ok(w.Close())
	h.is(w.Gather(dstl.OpPut, backend.Addr{Group: groups.From}, 0, nil), dstl.ErrClosed)
	h.ok(other.Close())
}

// gatheredBlocks: Room ends before the writer blocks, whether uploads fail or are slow; without early ones it never does.
func gatheredBlocks(h *harness) {
	heal := h.breakPuts()
	h.open(dstl.Options{InFlight: 8000, Preemptive: 8000})
	w, other := h.writer("count-0"), h.writer("count-1")
	a := backend.Addr{Group: groups.From, Key: []byte("key")}
	fill := func() (n int) {
		for ; w.Room(0) > 0; n++ {
			a.Key = fmt.Append(nil, "key", w.pos)
			w.gather(dstl.OpPut, a, make([]byte, 100))
		}
		return n
	}
	h.want(fill() > 10 && !w.Blocked(), "no room in a new writer, or blocked with %d bytes", w.Unsent())
	w.Early()
	h.settle() // the upload fails, and the next waits
	h.want(w.Room(0) > 0 && fill() > 10, "no room while an upload waits, with %d bytes unsent", w.Unsent())
	h.want(w.Blocked() && w.Unsent() < 4500, "blocked %v with %d bytes unsent", w.Blocked(), w.Unsent())
	heal()
	for w.Blocked() {
		_, err := world.Wait(h.ctx, h.w, world.Never, w.Unblocked())
		h.ok(err)
	}
	h.ok(w.Close())
	h.ok(other.Close())
	h.open(dstl.Options{InFlight: 8000, PreemptiveOff: true})
	w = h.writer("count-2")
	w.random(100)
	h.want(w.Room(1<<40) > 1<<40, "without early uploads, %d bytes of room", w.Room(1<<40))
	h.ok(w.Close())
}

// batchesWriters: what several writers persist for a checkpoint becomes one object, without waiting once all are in.
func batchesWriters(h *harness) {
	h.open(dstl.Options{BatchDelay: time.Hour})
	var ws []*logWriter
	for i := range 4 {
		w := h.writer(fmt.Sprint("count-", i))
		w.random(20)
		w.cut(0, 1)
		ws = append(ws, w)
	}
	began := h.w.Now()
	ps := h.together(ws, 0, 1)
	h.want(h.w.Now()-began < time.Minute, "the batch waited although all were in")
	h.want(len(h.keys()) == 1, "%d objects", len(h.keys()))
	objects := 0
	for i, w := range ws {
		w.restores(ps[i].Refs, 0, 1)
		objects += ps[i].Objects
		h.ok(w.Close())
	}
	h.want(objects == 1, "%d objects counted for one", objects)
}

// batchSizeEndsTheWait of a batch, and so does the delay.
func batchSizeEndsTheWait(h *harness) {
	h.open(dstl.Options{BatchDelay: time.Hour, BatchSize: 1000})
	w, idle := h.writer("count-0"), h.writer("count-1")
	began := h.w.Now()
	w.put("large", 2000)
	w.checkpoint(0, 1)
	h.want(h.w.Now()-began < time.Minute, "a large batch waited")
	w.put("small", 10)
	w.checkpoint(0, 2)
	h.want(!h.w.Simulated() || h.w.Now()-began >= time.Hour, "a small batch did not wait for the other writer")
	h.ok(w.Close())
	h.ok(idle.Close())
}

// inFlightLimit: the bytes under upload stay below the limit.
func inFlightLimit(h *harness) {
	const limit = 3000
	h.inj.Add(store.Rule{Ops: []string{"put"}, Delay: time.Second})
	h.open(dstl.Options{InFlight: limit, Preemptive: 600})
	w := h.writer("count-0")
	for i := range 100 {
		w.put(fmt.Sprint("key", i), 200)
	}
	w.checkpoint(0, 1)
	var now, most int64
	for _, e := range h.worker.Events() {
		switch e.Kind {
		case history.LogFlushBegin:
			a, err := h.raw.Stat(h.ctx, e.Text)
			h.ok(err)
			now += a.Size
			most = max(most, now)
		case history.LogFlushEnd:
			now -= e.Bytes
		}
	}
	h.want(now == 0 && most > limit/2 && most <= limit, "%d bytes in flight at most, %d at the end, limit %d", most, now, limit)
	h.ok(w.Close())
}

// blocksAndUnblocks: a writer whose share is used up blocks until uploads catch up, also after failures.
func blocksAndUnblocks(h *harness) {
	heal := h.breakPuts()
	h.open(dstl.Options{InFlight: 8000, Preemptive: 1000})
	w, other := h.writer("count-0"), h.writer("count-1")
	h.want(!w.Blocked(), "a new writer is blocked")
	n := 0
	for ; !w.Blocked(); n++ {
		h.want(n < 1000, "a writer with %d bytes unsent is not blocked", w.Unsent())
		w.put(fmt.Sprint("key", n), 100)
	}
	h.want(w.Unsent() > 4000 && w.Unsent() < 4500, "blocked at %d bytes", w.Unsent())
	h.want(!other.Blocked(), "another writer is blocked too")
	h.want(!w.Exhausted() && w.InFlight() <= w.Unsent(), "one writer has used up the whole log, with %d of %d bytes in flight", w.InFlight(), w.Unsent())
	for n := 0; !other.Blocked(); n++ {
		other.put(fmt.Sprint("key", n), 100)
	}
	h.want(w.Blocked() && w.Exhausted() && other.Exhausted(), "all is used up, and one writer takes it for its share")
	h.ok(h.w.Sleep(h.ctx, 20*time.Second))
	h.want(w.Blocked(), "unblocked while nothing can be uploaded")
	heal()
	for w.Blocked() {
		_, err := world.Wait(h.ctx, h.w, world.Never, w.Unblocked())
		h.ok(err)
	}
	p := w.checkpoint(0, 1)
	w.restores(p.Refs, 0, w.next())
	h.ok(w.Close())
	h.ok(other.Close())
}

// damaged: objects that were damaged or are missing are errors that name them.
func damaged(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.random(100)
	p := w.checkpoint(0, 1)
	key := p.Refs[0].Key
	body, err := h.raw.Get(h.ctx, key)
	h.ok(err)
	read := func() error {
		_, err := h.log.Read(h.worker.Ctx, p.Refs, groups, &replay{state: elements{}})
		return err
	}
	replace := func(b []byte) {
		h.ok(h.raw.Delete(h.ctx, []string{key})[0].Err)
		if b != nil {
			h.ok(h.raw.Put(h.ctx, key, b, store.PutOptions{}))
		}
	}
	for range 50 {
		bad := append([]byte(nil), body...)
		bad[p.Refs[0].Offset+h.rng.Int64N(p.Refs[0].Length)] ^= 1 << h.rng.IntN(8)
		replace(bad)
		h.is(read(), store.ErrCorrupt)
	}
	replace(body[:len(body)/2])
	h.is(read(), store.ErrCorrupt)
	replace(nil)
	h.is(read(), store.ErrNotExist)
	replace(body)
	h.ok(read())
	h.ok(w.Close())
}

// events tell of uploads and truncations.
func events(h *harness) {
	h.open(dstl.Options{})
	w := h.writer("count-0")
	w.put("a", 10)
	heal := h.breakPuts()
	w.cut(0, 1)
	_, err := w.Persist(h.worker.Ctx, 0, 1)
	h.is(err, store.ErrAmbiguous)
	heal()
	w.Reset(1)
	p := w.checkpoint(0, 2)
	h.ok(w.Truncate(h.worker.Ctx, 1))
	h.ok(w.Close())
	var kinds []history.Kind
	for _, e := range h.worker.Events() {
		kinds = append(kinds, e.Kind)
	}
	want := []history.Kind{history.LogFlushBegin, history.LogFlushEnd, history.LogFlushBegin, history.LogFlushEnd, history.LogTruncated}
	h.want(fmt.Sprint(kinds) == fmt.Sprint(want), "events %v, want %v", kinds, want)
	failed, done, cut := h.worker.Events()[1], h.worker.Events()[3], h.worker.Events()[4]
	h.want(failed.Error != "" && failed.Injected, "failed upload says %+v", failed)
	h.want(done.Text == p.Refs[0].Key && done.Bytes == p.Refs[0].Bytes && done.Count == 1, "upload says %+v", done)
	h.want(cut.Actor == "count-0" && cut.To == 1, "truncation says %+v", cut)
}
