package heap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// snapshot is the state as of a barrier. What it refers to is not changed until it is released.
type snapshot struct {
	k         *keyed
	id        uint64
	version   uint32
	released  atomic.Bool
	memory    memory
	positions []uint64
	specs     []backend.StateSpec
	states    []stateView
	savepoint *backend.SavepointOptions // nil: it is none
}

// stateView is the tables of one state that are not empty, in order of key groups.
type stateView struct{ tables []tableView }

// tableView is a table: slots of a point state or leaves of an ordered one.
type tableView struct {
	group keygroup.ID
	slots []pointSlot
	dir   []dirEntry
}

// Snapshot implements backend.Keyed. It costs some nanoseconds a table, whatever the number of elements.
func (k *keyed) Snapshot(_ context.Context, id uint64) (backend.Snapshot, error) {
	if k.closed {
		return nil, errClosed
	}
	s := &snapshot{
		k: k, id: id, memory: k.arena.memory, specs: k.States(),
		positions: append([]uint64(nil), k.positions...), states: make([]stateView, len(k.states)),
	}
	for i := range k.states {
		s.states[i].tables = k.states[i].view(k.rng.From)
	}
	s.version = k.versions.fix()
	return s, nil
}

func (s *state) view(from keygroup.ID) []tableView {
	n := 0
	for i := range s.point {
		n += min(1, s.point[i].count)
	}
	for i := range s.ordered {
		n += min(1, s.ordered[i].count)
	}
	views := make([]tableView, 0, n)
	for i := range s.point {
		if t := &s.point[i]; t.count > 0 {
			views = append(views, tableView{group: from + keygroup.ID(i), slots: t.slots})
		}
	}
	for i := range s.ordered {
		if t := &s.ordered[i]; t.count > 0 {
			views = append(views, tableView{group: from + keygroup.ID(i), dir: t.dir})
		}
	}
	return views
}

// Release implements backend.Snapshot.
func (s *snapshot) Release() {
	if s.released.CompareAndSwap(false, true) {
		s.k.versions.drop(s.version)
		s.memory, s.states = memory{}, nil
	}
}

// Persist implements backend.Snapshot.
func (s *snapshot) Persist(ctx context.Context) (backend.Persisted, error) {
	e := &s.k.b.e
	cause := "base"
	if s.savepoint != nil {
		cause = "savepoint"
	}
	ctx = store.WithInfo(ctx, store.Info{Cause: cause, Who: e.Worker, Attempt: e.Attempt, Checkpoint: s.id})
	p := newPersister(ctx, s)
	err := s.reach(ctx, failpoint.CheckpointUploadBegin)
	if err == nil {
		err = p.write(ctx)
	}
	waited := p.uploads.Wait(ctx)
	if err == nil {
		err = waited
	}
	for _, o := range p.objects {
		if o.err != nil && (err == nil || err == errUpload) {
			err = o.err
		}
	}
	p.recycle()
	if err == nil {
		err = s.reach(ctx, failpoint.CheckpointUploadEnd)
	}
	if err != nil {
		p.discard(ctx)
		return backend.Persisted{}, fmt.Errorf("persist snapshot %d of %s: %w", s.id, s.k.subtask, err)
	}
	return p.result(), nil
}

// reach passes a failpoint of the checkpoint's life; a backend that nests this one has its own, but for savepoints.
func (s *snapshot) reach(ctx context.Context, point string) error {
	if s.k.names != nil && s.savepoint == nil {
		return nil
	}
	return s.k.b.e.Failpoints.Hit(ctx, point, s.k.subtask)
}

// objectName names the next object of the snapshot.
func (p *persister) objectName() string {
	if o := p.s.savepoint; o != nil {
		return o.Names(uint64(len(p.objects)))
	}
	return p.s.k.objectName(p.s.k.objects.Add(1) - 1)
}

// errUpload ends the encoding early; the failed upload's own error takes its place.
var errUpload = errors.New("an upload has failed")

// object is one that a persister made.
type object struct {
	ref backend.ObjectRef
	err error // of its put; nil once that has succeeded
	ok  bool  // the put has succeeded
}

// persister writes a snapshot: it builds objects one after the other and uploads them beside that.
type persister struct {
	s       *snapshot
	uploads *world.Group
	objects []*object
	buffers *world.Queue[[]byte] // bounds the uploads under way and keeps their memory
	failed  atomic.Bool          // an upload has

	buf   []byte // the object being built; empty: none
	index []groupIndex
	raw   []byte // the block being built
	group keygroup.ID
	state uint16
	count int // where the count of the open section stands in raw; 0: no section is open
	n     uint32
	total uint64 // elements in raw
	err   error
}

func newPersister(ctx context.Context, s *snapshot) *persister {
	w := s.k.b.e.World
	p := &persister{s: s, uploads: world.NewGroup(w), buffers: world.NewQueue[[]byte](w, s.k.b.o.Parallel), raw: s.k.b.spare.block()}
	for range s.k.b.o.Parallel {
		p.buffers.TryPut(nil)
	}
	return p
}

// write encodes all key groups and starts the uploads.
func (p *persister) write(ctx context.Context) error {
	next := make([]int, len(p.s.states)) // the table of each state that is next in order of key groups
	element := func(key, value []byte) bool { return p.element(ctx, key, value) }
	for i, position := range p.s.positions {
		p.group = p.s.k.rng.From + keygroup.ID(i)
		for id := range p.s.states {
			tables := p.s.states[id].tables
			if next[id] == len(tables) || tables[next[id]].group != p.group {
				continue
			}
			t := tables[next[id]]
			next[id]++
			p.state = uint16(id)
			if !scanSlots(&p.s.memory, t.slots, element) || !scanLeaves(&p.s.memory, t.dir, element) {
				return p.err
			}
			p.closeSection()
		}
		if err := p.flush(ctx); err != nil {
			return err
		}
		if position > 0 {
			if err := p.entry(ctx); err != nil {
				return err
			}
		}
	}
	return p.seal(ctx)
}

// element adds an element to the open section; false is an error, in p.err.
func (p *persister) element(ctx context.Context, key, value []byte) bool {
	if p.count == 0 {
		if len(p.raw) == 0 {
			p.raw = binary.BigEndian.AppendUint16(p.raw, uint16(p.group))
		}
		p.raw = binary.BigEndian.AppendUint16(p.raw, p.state)
		p.count = len(p.raw)
		p.raw = append(p.raw, 0, 0, 0, 0)
	}
	p.n++
	p.raw = binary.AppendUvarint(p.raw, uint64(len(key)))
	p.raw = binary.AppendUvarint(p.raw, uint64(len(value)))
	p.raw = append(append(p.raw, key...), value...)
	if len(p.raw) >= blockSize {
		p.err = p.flush(ctx)
	}
	return p.err == nil
}

func (p *persister) closeSection() {
	if p.count > 0 {
		binary.BigEndian.PutUint32(p.raw[p.count:], p.n)
		p.total += uint64(p.n)
		p.count, p.n = 0, 0
	}
}

// flush adds the block to the object.
func (p *persister) flush(ctx context.Context) error {
	p.closeSection()
	if len(p.raw) == 0 {
		return nil
	}
	p.s.k.b.e.World.Compute(ctx, time.Duration(len(p.raw))*p.s.k.b.o.EncodeCost)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if int64(len(p.buf)) >= p.s.k.b.o.ObjectBytes {
		if err := p.seal(ctx); err != nil {
			return err
		}
	}
	if err := p.entry(ctx); err != nil {
		return err
	}
	at := len(p.buf)
	p.buf = appendBlock(p.buf, p.raw)
	g := &p.index[len(p.index)-1]
	g.length += uint64(len(p.buf) - at)
	g.elements += p.total
	p.raw, p.total = p.raw[:0], 0
	return nil
}

// entry makes the key group the last one in the index of the object, which it begins if there is none.
func (p *persister) entry(ctx context.Context) (err error) {
	if len(p.buf) == 0 {
		if p.buf, err = p.buffers.Take(ctx); err != nil {
			return err
		}
		if p.buf == nil {
			p.buf = p.s.k.b.spare.take()
		}
		p.buf = appendMagic(p.buf)
	}
	if n := len(p.index); n == 0 || p.index[n-1].group != p.group {
		position := p.s.positions[p.group-p.s.k.rng.From]
		p.index = append(p.index, groupIndex{group: p.group, position: position, offset: uint64(len(p.buf))})
	}
	return nil
}

// seal ends the object, if one is begun, and starts its upload.
func (p *persister) seal(ctx context.Context) error {
	if len(p.buf) == 0 {
		return nil
	}
	if p.failed.Load() {
		return errUpload
	}
	k := p.s.k
	body := appendFooter(p.buf, footer{p.s.specs, p.index})
	o := &object{ref: backend.ObjectRef{
		Key: p.objectName(), Bytes: int64(len(body)), CRC32C: castagnoli(body), Length: int64(len(body)),
		Groups: keygroup.Range{From: p.index[0].group, To: p.index[len(p.index)-1].group + 1},
	}}
	p.objects = append(p.objects, o)
	p.buf, p.index = nil, p.index[:0]
	p.uploads.Go(ctx, "upload "+o.ref.Key, func(ctx context.Context) error {
		o.err = k.b.e.Bucket.Put(ctx, o.ref.Key, body, store.PutOptions{Info: store.InfoOf(ctx)})
		if o.ok = o.err == nil; !o.ok {
			p.failed.Store(true)
			body = nil // a put that was given up may still read it
		}
		p.buffers.TryPut(body[:0])
		return nil
	})
	return nil
}

// recycle hands on the memory of uploads that have ended.
func (p *persister) recycle() {
	for {
		b, ok := p.buffers.TryTake()
		if !ok {
			break
		}
		p.s.k.b.spare.keep(nil, b)
	}
	p.s.k.b.spare.keep(p.raw)
	p.raw = nil
}

// discard deletes the objects that were put for certain. One whose put failed may still appear, and a cancelled process
// may no longer act: both are left to the leader's clean-up.
func (p *persister) discard(ctx context.Context) {
	var keys []string
	for _, o := range p.objects {
		if o.ok {
			keys = append(keys, o.ref.Key)
		}
	}
	if len(keys) > 0 && ctx.Err() == nil {
		p.s.k.b.e.Bucket.Delete(ctx, keys)
	}
}

func (p *persister) result() backend.Persisted {
	h := backend.StateHandle{Backend: Name, Operator: p.s.k.operator, Range: p.s.k.rng, Checkpoint: p.s.id}
	for _, o := range p.objects {
		h.Base = append(h.Base, o.ref)
	}
	return backend.Persisted{Handle: h, Checkpointed: h.BaseBytes(), Objects: len(p.objects)}
}
