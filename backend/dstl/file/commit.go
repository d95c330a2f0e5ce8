package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

var errClosed = errors.New("log volume is closed")

// append writes a record and returns the round that it is in, with mu held.
func (v *Volume) append(kind byte, key string, body []byte, crc uint32) (*round, error) {
	if v.closed {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, errClosed)
	}
	f, err := v.writable()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	head := appendHead(nil, kind, key, int64(len(body)), crc)
	at := place{file: f, off: f.size + int64(len(head)), size: int64(len(body)), crc: crc}
	for _, b := range [][]byte{head, body} {
		n, err := f.f.Write(b)
		f.size += int64(n)
		if err != nil {
			v.fail(f)  // the record is cut: a reader stops there
			v.round(f) // and what is before it still has to be synced
			return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	r := v.round(f)
	r.records = append(r.records, record{kind: kind, key: key, at: at})
	return r, nil
}

// writable returns the file to append to, with mu held.
func (v *Volume) writable() (*logFile, error) {
	if f := v.current; f != nil && f.size >= v.o.Rotate {
		v.current = nil
		if _, err := f.f.Write(appendSeal(nil, f.size)); err != nil {
			f.failed = true // nothing is lost: it looks like a file whose writer has crashed
			v.round(f)
		} else {
			f.size += sealSize
			v.round(f)
		}
	}
	if v.current != nil {
		return v.current, nil
	}
	f := &logFile{number: v.last + 1, name: fileName(v.last + 1)}
	v.last++ // also after a failure: a name is used once
	var err error
	if f.f, err = v.disk.Create(f.name); err != nil {
		return nil, err
	}
	n, err := f.f.Write([]byte(magic))
	if f.size = int64(n); err != nil {
		return nil, errors.Join(err, f.f.Close(), v.disk.Remove(f.name))
	}
	v.files = append(v.files, f)
	v.current = f
	return f, nil
}

// fail ends the use of a file, with mu held.
func (v *Volume) fail(f *logFile) {
	f.failed = true
	if v.current == f {
		v.current = nil
	}
}

// round returns the open round, which syncs f too, with mu held.
func (v *Volume) round(f *logFile) *round {
	if v.open == nil {
		v.open = &round{done: world.NewLatch(v.w)}
		v.queue.TryPut(v.open)
	}
	if !slices.Contains(v.open.files, f) {
		v.open.files = append(v.open.files, f)
	}
	return v.open
}

// commits is the committer. What it leaves when its context ends fails.
func (v *Volume) commits(ctx context.Context) error {
	for {
		r, err := v.queue.Take(ctx)
		if err != nil {
			v.abandon()
			return nil
		}
		v.mu.Lock()
		v.open = nil // who comes from now on waits for the next one
		v.stats.Syncs++
		v.mu.Unlock()
		if v.w.Simulated() {
			err = v.w.Sleep(ctx, v.o.SyncTime)
		}
		if err == nil {
			err = v.sync(r)
		}
		v.publish(r, err)
		r.err = err
		r.done.Open()
		v.collect()
	}
}

// abandon fails what waits.
func (v *Volume) abandon() {
	v.mu.Lock()
	r := v.open
	v.open, v.closed = nil, true
	v.mu.Unlock()
	if r != nil {
		v.publish(r, errClosed)
		r.err = errClosed
		r.done.Open()
	}
}

// sync makes the files of r durable.
func (v *Volume) sync(r *round) error {
	for _, f := range r.files {
		var err error
		switch {
		case f.broken:
			err = errors.New("an earlier sync of it failed")
		case f.named:
			err = f.f.Sync()
		default:
			err = v.disk.Sync(f.name) // the content and the name
		}
		if err != nil {
			return fmt.Errorf("sync %s: %w", f.name, err)
		}
		f.named = true
	}
	return nil
}

// publish makes a round's records visible, or takes note of the doubt about them.
func (v *Volume) publish(r *round, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, rec := range r.records {
		if rec.kind == kindPut {
			if v.pending[rec.key]--; v.pending[rec.key] == 0 {
				delete(v.pending, rec.key)
			}
		}
		switch {
		case err == nil:
			v.apply(rec)
		case rec.kind == kindPut:
			v.doubt[rec.key] = rec.at.file
		default:
			rec.at.file.erases = true // it may be there
		}
	}
	if err != nil {
		for _, f := range r.files {
			v.fail(f)
			f.broken = true // a second sync may succeed and yet have lost what the first one could not write
		}
	}
}

// apply brings the index up to date, with mu held.
func (v *Volume) apply(r record) {
	old, ok := v.index.Delete(r.key)
	if ok {
		old.file.live--
	}
	delete(v.doubt, r.key)
	if r.kind == kindPut {
		v.index.Set(r.key, r.at)
		r.at.file.live++
	} else {
		r.at.file.erases = true
	}
}

// collect deletes the files that nobody needs. What says that segments are gone stays as long as there are older files, in which
// these may be.
func (v *Volume) collect() {
	for {
		v.mu.Lock()
		i := slices.IndexFunc(v.files, func(f *logFile) bool {
			return f != v.current && f.live == 0 && (!f.erases || f == v.files[0]) && (v.open == nil || !slices.Contains(v.open.files, f))
		})
		if i < 0 {
			v.mu.Unlock()
			return
		}
		f := v.files[i]
		v.mu.Unlock()
		if err := v.disk.Remove(f.name); err != nil {
			return // tried again after the next round
		}
		// Before the next file goes: what that one erases must not come back.
		if err := v.disk.Sync(""); err != nil {
			v.mu.Lock()
			f.erases = true
			v.mu.Unlock()
			return
		}
		v.mu.Lock()
		v.files = slices.DeleteFunc(v.files, func(x *logFile) bool { return x == f })
		for key, in := range v.doubt { // order-free: independent entries
			if in == f {
				delete(v.doubt, key)
			}
		}
		v.mu.Unlock()
		_ = f.f.Close() // for reading only by now
	}
}

// Delete implements dstl.Storage. All keys of a call share one sync.
func (v *Volume) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	var rounds []*round
	var waits []int
	v.mu.Lock()
	for i, key := range keys {
		out[i].Key = key
		if out[i].Err = check(ctx, key); out[i].Err != nil {
			continue
		}
		_, there := v.index.Get(key)
		if !there && v.doubt[key] == nil && v.pending[key] == 0 {
			continue
		}
		r, err := v.append(kindErase, key, nil, 0)
		if out[i].Err = err; err == nil {
			waits, rounds = append(waits, i), append(rounds, r)
		}
	}
	v.mu.Unlock()
	for j, i := range waits {
		err := rounds[j].done.Wait(ctx)
		if err == nil && rounds[j].err != nil {
			err = fmt.Errorf("delete %q: %w (%w)", keys[i], store.ErrUnavailable, rounds[j].err)
		}
		out[i].Err = err
	}
	return out
}

// page is the number of entries that a listing takes under one lock.
const page = 1000

// List implements dstl.Storage.
func (v *Volume) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		for after := startAfter; ; {
			if ctx.Err() != nil {
				yield(store.Attributes{}, context.Cause(ctx))
				return
			}
			some := v.page(prefix, after)
			for _, a := range some {
				if !yield(a, nil) {
					return
				}
			}
			if len(some) < page {
				return
			}
			after = some[len(some)-1].Key
		}
	}
}

func (v *Volume) page(prefix, after string) []store.Attributes {
	v.mu.Lock()
	defer v.mu.Unlock()
	var some []store.Attributes
	v.index.Ascend(max(prefix, after), func(key string, p place) bool {
		if key <= after && after != "" {
			return true
		}
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		some = append(some, store.Attributes{Key: key, Size: p.size})
		return len(some) < page
	})
	return some
}
