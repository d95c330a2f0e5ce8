package validate

import (
	"slices"
	"sort"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

// trace is what happened to each object, as the object trace tells it. It is shared by the checks on objects.
type trace struct {
	objects map[string]*object
}

type object struct {
	puts    []effect
	deletes []effect
}

// effect is a write that was applied or may have been.
type effect struct {
	seq        uint64
	start, end time.Duration
	bytes      int64
	crc        uint32
	unknown    bool
	injected   bool // a fault touched it, and may have changed the content
	who        string
}

func newTrace() *trace { return &trace{objects: map[string]*object{}} }

func (t *trace) Request(q *history.Request) {
	if q.Applied == history.AppliedNo || (q.Op != history.OpPut && q.Op != history.OpDelete) {
		return
	}
	o := t.objects[q.Key]
	if o == nil {
		o = &object{}
		t.objects[q.Key] = o
	}
	e := effect{seq: q.Seq, start: q.Start, end: q.Start + q.Duration, bytes: q.Bytes, crc: q.CRC32C,
		unknown: q.Applied == history.AppliedUnknown, injected: q.Injected, who: q.Who}
	if q.Op == history.OpPut {
		o.puts = append(o.puts, e)
	} else {
		o.deletes = append(o.deletes, e)
	}
}

// lives follows which completed checkpoints name an object, and when each was durably dropped.
type lives struct {
	completedAt map[uint64]time.Duration
	event       map[uint64]int64
	subsumedAt  map[uint64]time.Duration
}

func newLives() *lives {
	return &lives{completedAt: map[uint64]time.Duration{}, event: map[uint64]int64{}, subsumedAt: map[uint64]time.Duration{}}
}

func (l *lives) Observe(e *history.Event) {
	switch e.Kind {
	case history.CheckpointCompleted:
		l.completedAt[e.Checkpoint], l.event[e.Checkpoint] = e.At, e.N
	case history.CheckpointSubsumed:
		l.subsumedAt[e.Checkpoint] = e.At
	}
}

// each calls f for every completed checkpoint in order with the whole set of objects that it names.
func each(refs []checkpoint.RefsChange, f func(r checkpoint.RefsChange, named map[string]checkpoint.ObjectUse)) {
	named := map[string]checkpoint.ObjectUse{}
	for _, r := range refs {
		for _, k := range r.Dropped {
			delete(named, k)
		}
		for _, o := range r.Added {
			named[o.Key] = o
		}
		f(r, named)
	}
}

// dangling is F1: every object that a completed checkpoint names was put before it completed, with that size and
// checksum, and was not deleted by then; and what the retained ones name lies in the store at the end.
type dangling struct {
	c *Case
	*trace
	*lives
}

func (j *dangling) Finish() Verdict {
	var f findings
	checked := 0
	each(j.c.Refs, func(r checkpoint.RefsChange, named map[string]checkpoint.ObjectUse) {
		at, known := j.completedAt[r.Checkpoint]
		if !known {
			return // C2 tells
		}
		n := j.event[r.Checkpoint]
		for _, o := range append([]checkpoint.ObjectUse{r.Meta}, r.Added...) {
			checked++
			j.written(&f, n, r.Checkpoint, o, at)
		}
		for _, key := range sortedKeys(named) {
			j.gone(&f, n, r.Checkpoint, key, at)
		}
	})
	if j.c.Complete {
		checked += j.atTheEnd(&f)
	}
	if f.count == 0 && (len(j.completedAt) == 0 || checked == 0) {
		return inconclusive("no checkpoint completed, or nothing is known of what one names")
	}
	return f.verdict("%d references of %d completed checkpoints name an object that was there", checked, len(j.completedAt))
}

// written checks that the object was put with the size and checksum that the reference says before the checkpoint completed.
func (j *dangling) written(f *findings, n int64, id uint64, o checkpoint.ObjectUse, at time.Duration) {
	x := j.objects[o.Key]
	if x == nil || len(x.puts) == 0 {
		f.add(n, "checkpoint %d names %s, which was never put", id, o.Key)
		return
	}
	for _, p := range x.puts {
		// one of unknown outcome may have had its effect as soon as it began
		if p.bytes == o.Bytes && p.crc == o.CRC32C && (p.end <= at || p.unknown && p.start <= at) {
			return
		}
	}
	p := x.puts[len(x.puts)-1]
	if p.bytes == o.Bytes && p.crc == o.CRC32C {
		f.add(n, "checkpoint %d completed at %v and names %s, whose put (request %d) ended at %v", id, at, o.Key, p.seq, p.end)
		return
	}
	f.add(n, "checkpoint %d names %s with %d bytes and crc32c %08x, put were %d bytes with %08x (request %d)", id, o.Key, o.Bytes, o.CRC32C, p.bytes, p.crc, p.seq)
}

func (j *dangling) gone(f *findings, n int64, id uint64, key string, at time.Duration) {
	x := j.objects[key]
	if x == nil {
		return
	}
	for _, d := range x.deletes {
		// at the very time of completion the next one may complete too, and drop this one: F5 judges that
		if d.end < at && !d.unknown && !putAgain(x, d, at) {
			f.add(n, "checkpoint %d completed at %v and names %s, which was deleted at %v (request %d by %s)", id, at, key, d.start, d.seq, d.who)
			return
		}
	}
}

// putAgain tells whether the object was put between a deletion and a time. Without latency all of it may happen at one time,
// so what came first is told by the number.
func putAgain(x *object, d effect, to time.Duration) bool {
	for _, p := range x.puts {
		if p.seq > d.seq && p.start >= d.end && p.end <= to {
			return true
		}
	}
	return false
}

func (j *dangling) atTheEnd(f *findings) (checked int) {
	there := map[string]int{}
	for i, l := range j.c.Listing {
		if l.Upload == "" {
			there[l.Key] = i
			j.stored(f, l)
		}
	}
	j.kept(f, there)
	for _, r := range j.c.Restores {
		for _, o := range r.Objects {
			checked++
			i, ok := there[o.Key]
			if !ok {
				f.add(0, "retained checkpoint %d names %s, which is not in the store", r.Checkpoint, o.Key)
				continue
			}
			if l := j.c.Listing[i]; l.Bytes != o.Bytes || l.CRC32C != o.CRC32C {
				f.add(0, "retained checkpoint %d names %s with %d bytes and crc32c %08x, in the store are %d with %08x", r.Checkpoint, o.Key, o.Bytes, o.CRC32C, l.Bytes, l.CRC32C)
			}
		}
	}
	return checked
}

// stored checks that what lies in the store is what was put there.
func (j *dangling) stored(f *findings, l results.Listed) {
	o := j.objects[l.Key]
	if o == nil || len(o.puts) == 0 {
		f.add(0, "%s lies in the store, and was never put", l.Key)
		return
	}
	for _, p := range o.puts {
		if l.Error != "" || p.injected || p.bytes == l.Bytes && p.crc == l.CRC32C {
			return
		}
	}
	p := o.puts[len(o.puts)-1]
	f.add(0, "%s lies in the store with %d bytes and crc32c %08x, put were %d with %08x (request %d)", l.Key, l.Bytes, l.CRC32C, p.bytes, p.crc, p.seq)
}

// kept checks that what was put and not deleted since lies in the store.
func (j *dangling) kept(f *findings, there map[string]int) {
	for _, key := range sortedKeys(j.objects) {
		o, last := j.objects[key], effect{}
		for _, p := range o.puts {
			if !p.unknown && p.seq > last.seq {
				last = p
			}
		}
		if _, ok := there[key]; ok || last.seq == 0 || slices.ContainsFunc(o.deletes, func(d effect) bool { return d.end >= last.start }) {
			continue
		}
		f.add(0, "%s was put at %v (request %d), never deleted since, and is not in the store", key, last.start, last.seq)
	}
}

// orphans is F2: after drain and grace nothing lies in the store that no retained checkpoint names.
type orphans struct {
	c *Case
	*trace
}

func (j *orphans) Finish() Verdict {
	if !j.c.Complete {
		return unverified()
	}
	if len(j.c.Listing) == 0 {
		return inconclusive("the listing is empty: not even what marks the run is there")
	}
	var f findings
	named := map[string]bool{"run": true}
	for _, r := range j.c.Restores {
		for _, o := range r.Objects {
			named[o.Key] = true
		}
	}
	for _, l := range j.c.Listing {
		switch {
		case l.Upload != "":
			f.add(0, "multipart upload %s of %s was left open", l.Upload, l.Key)
		case !named[l.Key] && !strings.HasPrefix(l.Key, checkpoint.EntryPrefix):
			by := ""
			if o := j.objects[l.Key]; o != nil && len(o.puts) > 0 {
				by = ", put by " + o.puts[0].who + " at " + o.puts[0].start.String()
			}
			f.add(0, "%s (%d bytes%s) is named by no retained checkpoint", l.Key, l.Bytes, by)
		}
	}
	return f.verdict("all %d objects in the store are named by a retained checkpoint or belong to the run itself", len(j.c.Listing))
}

// immutable is F4: no key is put a second time with other content.
type immutable struct{ *trace }

func (j *immutable) Finish() Verdict {
	if len(j.objects) == 0 {
		return inconclusive("the object trace has no write")
	}
	var f findings
	keys, again := 0, 0
	for _, k := range sortedKeys(j.objects) {
		o := j.objects[k]
		keys++
		for i, p := range o.puts {
			if i == 0 {
				continue
			}
			again++
			if p.bytes != o.puts[0].bytes || p.crc != o.puts[0].crc {
				f.add(0, "%s was put with %d bytes (crc32c %08x, request %d) and again with %d bytes (%08x, request %d)",
					k, o.puts[0].bytes, o.puts[0].crc, o.puts[0].seq, p.bytes, p.crc, p.seq)
			}
		}
	}
	return f.verdict("%d keys were put once, or again with the same content (%d times)", keys, again)
}

// deletions is F5: no object is deleted before its last reference was durably dropped: before the event that says so, and before
// the entry of the coordinator log that does.
type deletions struct {
	c *Case
	*trace
	*lives
	entered map[uint64]time.Duration // when the entry that drops a checkpoint was there, at the earliest
}

// enter finds out when the entries that drop checkpoints were put.
func (j *deletions) enter() {
	j.entered = map[uint64]time.Duration{}
	for _, l := range j.c.CoordLog {
		o := j.objects[checkpoint.EntryKey(l.Sequence)]
		if l.Kind != string(checkpoint.Drop) || o == nil {
			continue
		}
		for i, p := range o.puts {
			at := p.end
			if p.unknown {
				at = p.start
			}
			if was := j.entered[l.Checkpoint]; i == 0 || at < was {
				j.entered[l.Checkpoint] = at
			}
		}
	}
}

func (j *deletions) Finish() Verdict {
	if len(j.objects) == 0 {
		return inconclusive("the object trace has no write")
	}
	var f findings
	j.enter()
	users := map[string][]uint64{}
	each(j.c.Refs, func(r checkpoint.RefsChange, named map[string]checkpoint.ObjectUse) {
		users[r.Meta.Key] = append(users[r.Meta.Key], r.Checkpoint)
		for k := range named { // order-free: each key has its own list
			users[k] = append(users[k], r.Checkpoint)
		}
	})
	deleted := 0
	for _, k := range sortedKeys(j.objects) {
		for _, d := range j.objects[k].deletes {
			deleted++
			j.judge(&f, k, d, users[k])
		}
	}
	return f.verdict("%d deletions, none of an object that a retained checkpoint named", deleted)
}

func (j *deletions) judge(f *findings, key string, d effect, users []uint64) {
	sort.Slice(users, func(a, b int) bool { return users[a] < users[b] })
	for _, id := range users {
		dropped, was := j.subsumedAt[id]
		completed := j.completedAt[id]
		switch {
		case !was:
			f.add(j.event[id], "%s was deleted at %v by %s (request %d); checkpoint %d, completed at %v and still retained, names it", key, d.start, d.who, d.seq, id, completed)
			return
		case d.start < dropped:
			f.add(j.event[id], "%s was deleted at %v by %s (request %d); checkpoint %d, completed at %v, names it and was dropped only at %v", key, d.start, d.who, d.seq, id, completed, dropped)
			return
		case d.start < j.entered[id]:
			f.add(j.event[id], "%s was deleted at %v by %s (request %d); checkpoint %d names it and was dropped in the coordinator log only at %v", key, d.start, d.who, d.seq, id, j.entered[id])
			return
		}
	}
}
