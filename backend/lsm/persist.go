package lsm

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/world"
)

// Names of objects end in what they are.
const (
	tableExt    = ".sst"
	manifestExt = ".manifest"
)

// Note: the table is built by the standard library once; MakeTable returns the same one for this polynomial.
func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Persist implements backend.Snapshot: it uploads the files that are no objects yet, and then the manifest.
func (s *snapshot) Persist(ctx context.Context) (backend.Persisted, error) {
	e := &s.k.b.e
	cause := "base"
	if s.savepoint != nil {
		cause = "savepoint"
	}
	ctx = store.WithInfo(ctx, store.Info{Cause: cause, Who: e.Worker, Attempt: e.Attempt, Checkpoint: s.id})
	err := s.reach(ctx, failpoint.CheckpointUploadBegin)
	if err == nil {
		err = s.upload(ctx)
	}
	var manifest object
	if err == nil {
		manifest, err = s.putManifest(ctx)
	}
	if err == nil {
		err = s.reach(ctx, failpoint.CheckpointUploadEnd)
	}
	if err != nil {
		s.discard(ctx, manifest)
		return backend.Persisted{}, fmt.Errorf("persist snapshot %d of %s: %w", s.id, s.k.subtask, err)
	}
	s.ok.Store(true)
	return s.result(manifest), nil
}

// reach passes a failpoint of the checkpoint's life; a backend that nests this one has its own, but for savepoints.
func (s *snapshot) reach(ctx context.Context, point string) error {
	if s.k.names != nil && s.savepoint == nil {
		return nil
	}
	return s.k.b.e.Failpoints.Hit(ctx, point, s.k.subtask)
}

// objectName names the next object of the snapshot. Its asynchronous part calls it.
func (s *snapshot) objectName(ext string) string {
	if s.savepoint == nil {
		return s.k.objectName(s.k.objects.Add(1)-1, ext)
	}
	s.named++
	return s.savepoint.Names(s.named-1) + ext
}

// upload puts all files that are not in the store, some at the same time.
func (s *snapshot) upload(ctx context.Context) error {
	w := s.k.b.e.World
	uploads, buffers := world.NewGroup(w), newBuffers(w, s.k.b.o.Parallel)
	var failed atomic.Bool
	var err error
	errs := make([]error, len(s.sources))
	for i := range s.sources {
		src := &s.sources[i]
		if src.link == "" {
			continue
		}
		var buf []byte
		if buf, err = buffers.Take(ctx); err != nil || failed.Load() {
			break
		}
		src.object.key = s.objectName(tableExt)
		uploads.Go(ctx, "upload "+src.object.key, func(ctx context.Context) error {
			buf, errs[i] = s.uploadFile(ctx, src, buf)
			if errs[i] != nil {
				failed.Store(true)
			}
			buffers.TryPut(buf)
			return nil
		})
	}
	if waited := uploads.Wait(ctx); err == nil {
		err = waited
	}
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}

// newBuffers returns a queue of n buffers, which bounds how many processes use one.
func newBuffers(w world.World, n int) *world.Queue[[]byte] {
	q := world.NewQueue[[]byte](w, n)
	for range n {
		q.TryPut(nil)
	}
	return q
}

// uploadFile puts one file and returns the buffer.
func (s *snapshot) uploadFile(ctx context.Context, src *source, buf []byte) ([]byte, error) {
	b := s.k.b
	body, err := readFile(b, b.fs.PathJoin(s.dir, src.link), buf)
	if err != nil {
		return buf, fmt.Errorf("read table file: %w", err)
	}
	src.object.bytes, src.object.crc = int64(len(body)), castagnoli(body)
	b.e.World.Compute(ctx, time.Duration(len(body))*b.o.Costs.FileByte)
	err = b.e.Bucket.Put(ctx, src.object.key, body, store.PutOptions{Info: store.InfoOf(ctx)})
	src.put = err == nil
	return body, err
}

// readFile reads a file into buf, or into a larger one.
func readFile(b *Backend, name string, buf []byte) ([]byte, error) {
	f, err := b.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], int(info.Size()))[:info.Size()]
	if n, err := f.ReadAt(buf, 0); n < len(buf) {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, len(buf), orShort(err))
	}
	return buf, nil
}

func orShort(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// putManifest puts the object that says how the tables make up the state.
func (s *snapshot) putManifest(ctx context.Context) (object, error) {
	body := s.encode()
	o := object{key: s.objectName(manifestExt), bytes: int64(len(body)), crc: castagnoli(body)}
	err := s.k.b.e.Bucket.Put(ctx, o.key, body, store.PutOptions{Info: store.InfoOf(ctx)})
	if err != nil {
		return object{}, err
	}
	return o, nil
}

// discard deletes the objects that were put for certain. One whose put failed may still appear, and a cancelled process
// may no longer act: both are left to the leader's clean-up.
func (s *snapshot) discard(ctx context.Context, manifest object) {
	var keys []string
	for _, src := range s.sources {
		if src.put {
			keys = append(keys, src.object.key)
		}
	}
	if manifest.key != "" {
		keys = append(keys, manifest.key)
	}
	if len(keys) > 0 && ctx.Err() == nil {
		s.k.b.e.Bucket.Delete(ctx, keys)
	}
}

// result names the manifest first and then each object once.
func (s *snapshot) result(manifest object) backend.Persisted {
	p := backend.Persisted{
		Handle:       backend.StateHandle{Backend: Name, Operator: s.k.operator, Range: s.k.rng, Checkpoint: s.id},
		Checkpointed: manifest.bytes, Objects: 1,
	}
	ref := manifest.ref()
	ref.Groups = s.k.rng
	p.Handle.Base = append(p.Handle.Base, ref)
	for _, src := range s.sources {
		ref := src.object.ref()
		ref.Groups = src.groups.Intersect(s.k.rng)
		p.Handle.Base = append(p.Handle.Base, ref)
		if src.put {
			p.Checkpointed += src.object.bytes
			p.Objects++
		}
	}
	return p
}

func (o object) ref() backend.ObjectRef {
	return backend.ObjectRef{Key: o.key, Bytes: o.bytes, CRC32C: o.crc, Length: o.bytes}
}
