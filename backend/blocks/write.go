package blocks

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// errUpload ends the encoding early; the failed upload's own error takes its place.
var errUpload = errors.New("an upload has failed")

// Write stores s and returns its handle. On an error the objects that were put for certain are deleted, unless ctx has ended.
// One whose put failed may still appear, and a process that was cancelled may no longer act: both are left to the leader's
// clean-up.
func (f Format) Write(ctx context.Context, e backend.WorkerEnv, o Options, t Target, s Source) (backend.Persisted, error) {
	ctx = store.WithInfo(ctx, store.Info{Cause: t.Cause, Who: e.Worker, Attempt: e.Attempt, Checkpoint: t.Checkpoint})
	w := newWriter(f, e, o.WithDefaults(), t, s)
	err := w.reach(ctx, failpoint.CheckpointUploadBegin)
	if err == nil {
		err = w.write(ctx)
	}
	if waited := w.uploads.Wait(ctx); err == nil {
		err = waited
	}
	for _, u := range w.objects {
		if u.err != nil && (err == nil || err == errUpload) {
			err = u.err
		}
	}
	w.recycle()
	if err == nil {
		err = w.reach(ctx, failpoint.CheckpointUploadEnd)
	}
	if err != nil {
		w.discard(ctx)
		return backend.Persisted{}, err
	}
	return w.result(), nil
}

// object is one that a writer made.
type object struct {
	ref  backend.ObjectRef
	err  error // of its put
	done bool  // the put has succeeded
}

// writer builds objects one after the other and uploads them beside that.
type writer struct {
	f       Format
	e       backend.WorkerEnv
	o       Options
	t       Target
	s       Source
	uploads *world.Group
	objects []*object
	buffers *world.Queue[[]byte] // bounds the uploads under way and keeps their memory
	failed  atomic.Bool          // an upload has

	buf   []byte // the object being built; empty: none
	index []groupIndex
	raw   []byte // the block being built; empty: none
	group keygroup.ID
	state int
	count int    // where the count of the open section stands in raw; 0: no section is open
	n     uint32 // elements in it
	total uint64 // elements in raw
	err   error
}

func newWriter(f Format, e backend.WorkerEnv, o Options, t Target, s Source) *writer {
	w := &writer{
		f: f, e: e, o: o, t: t, s: s,
		uploads: world.NewGroup(e.World), buffers: world.NewQueue[[]byte](e.World, o.Parallel), raw: t.Spare.block(),
	}
	for range o.Parallel {
		w.buffers.TryPut(nil)
	}
	return w
}

func (w *writer) reach(ctx context.Context, point string) error {
	if w.t.Reach == nil {
		return nil
	}
	return w.t.Reach(ctx, point)
}

// write encodes all key groups and starts the uploads.
func (w *writer) write(ctx context.Context) error {
	element := func(key, value []byte) bool { return w.element(ctx, key, value) }
	for i, position := range w.s.Positions {
		w.group = w.s.Range.From + keygroup.ID(i)
		for w.state = range w.s.States {
			if err := w.s.Scan(w.group, w.state, element); err != nil {
				return err
			}
			if w.err != nil {
				return w.err
			}
			w.closeSection()
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
		if position > 0 {
			if err := w.entry(ctx); err != nil {
				return err
			}
		}
	}
	return w.seal(ctx)
}

// element adds an element to the open section; false is an error, in w.err.
func (w *writer) element(ctx context.Context, key, value []byte) bool {
	if w.count == 0 {
		if len(w.raw) == 0 {
			w.raw = binary.BigEndian.AppendUint16(w.raw, uint16(w.group))
		}
		w.raw = binary.BigEndian.AppendUint16(w.raw, uint16(w.state))
		w.count = len(w.raw)
		w.raw = append(w.raw, 0, 0, 0, 0)
	}
	w.n++
	w.raw = binary.AppendUvarint(w.raw, uint64(len(key)))
	w.raw = binary.AppendUvarint(w.raw, uint64(len(value)))
	w.raw = append(append(w.raw, key...), value...)
	if len(w.raw) >= blockBytes {
		w.err = w.flush(ctx)
	}
	return w.err == nil
}

func (w *writer) closeSection() {
	if w.count > 0 {
		binary.BigEndian.PutUint32(w.raw[w.count:], w.n)
		w.total += uint64(w.n)
		w.count, w.n = 0, 0
	}
}

// flush adds the block to the object.
func (w *writer) flush(ctx context.Context) error {
	w.closeSection()
	if len(w.raw) == 0 {
		return nil
	}
	w.e.World.Compute(ctx, time.Duration(len(w.raw))*w.o.EncodeCost)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if int64(len(w.buf)) >= w.o.ObjectBytes {
		if err := w.seal(ctx); err != nil {
			return err
		}
	}
	if err := w.entry(ctx); err != nil {
		return err
	}
	at := len(w.buf)
	w.buf = appendBlock(w.buf, w.raw)
	g := &w.index[len(w.index)-1]
	g.length += uint64(len(w.buf) - at)
	g.elements += w.total
	w.raw, w.total = w.raw[:0], 0
	return nil
}

// entry makes the key group the last one in the index of the object, which it begins if there is none.
func (w *writer) entry(ctx context.Context) (err error) {
	if len(w.buf) == 0 {
		if w.buf, err = w.buffers.Take(ctx); err != nil {
			return err
		}
		if w.buf == nil {
			w.buf = w.t.Spare.take()
		}
		w.buf = w.f.appendMagic(w.buf, w.s.States)
	}
	if n := len(w.index); n == 0 || w.index[n-1].group != w.group {
		position := w.s.Positions[w.group-w.s.Range.From]
		w.index = append(w.index, groupIndex{group: w.group, position: position, offset: uint64(len(w.buf))})
	}
	return nil
}

// seal ends the object, if one is begun, and starts its upload.
func (w *writer) seal(ctx context.Context) error {
	if len(w.buf) == 0 {
		return nil
	}
	if w.failed.Load() {
		return errUpload
	}
	body := w.f.appendFooter(w.buf, footer{w.s.States, w.index})
	o := &object{ref: backend.ObjectRef{
		Key: w.t.Name(uint64(len(w.objects))), Bytes: int64(len(body)), CRC32C: store.CRC32C(body), Length: int64(len(body)),
		Groups: keygroup.Range{From: w.index[0].group, To: w.index[len(w.index)-1].group + 1},
	}}
	w.objects = append(w.objects, o)
	w.buf, w.index = nil, w.index[:0]
	w.uploads.Go(ctx, "upload "+o.ref.Key, func(ctx context.Context) error {
		o.err = w.e.Bucket.Put(ctx, o.ref.Key, body, store.PutOptions{Info: store.InfoOf(ctx)})
		if o.done = o.err == nil; !o.done {
			w.failed.Store(true)
			body = nil // a put that was given up may still read it
		}
		w.buffers.TryPut(body[:0])
		return nil
	})
	return nil
}

// recycle hands on the memory of uploads that have ended.
func (w *writer) recycle() {
	for {
		b, ok := w.buffers.TryTake()
		if !ok {
			break
		}
		w.t.Spare.keep(nil, b)
	}
	w.t.Spare.keep(w.raw)
	w.raw = nil
}

// discard deletes the objects that were put for certain.
func (w *writer) discard(ctx context.Context) {
	var keys []string
	for _, o := range w.objects {
		if o.done {
			keys = append(keys, o.ref.Key)
		}
	}
	if len(keys) > 0 && ctx.Err() == nil {
		w.e.Bucket.Delete(ctx, keys)
	}
}

func (w *writer) result() backend.Persisted {
	h := backend.StateHandle{Backend: w.f.Backend, Operator: w.s.Operator, Range: w.s.Range, Checkpoint: w.t.Checkpoint}
	for _, o := range w.objects {
		h.Base = append(h.Base, o.ref)
	}
	return backend.Persisted{Handle: h, Checkpointed: h.BaseBytes(), Objects: len(w.objects)}
}
