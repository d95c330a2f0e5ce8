package localcopy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// copies is the book on a worker's copies during one attempt.
type copies struct {
	e     backend.WorkerEnv
	limit int64
	// wanted is what the worker's subtasks restore, by key. It is not changed.
	wanted map[string]object

	mu      *world.Mutex
	files   map[string]file // by key
	held    int64           // their sizes
	next    int64
	opened  map[string]*copied
	records map[uint64]*record // by checkpoint
	told    bool               // of a copy that could not be made
}

// file is a copy on the disk, or one that is being made.
type file struct {
	size   int64
	number int64 // in order of their making
	making bool
}

// record is what the subtasks of the worker named for a checkpoint.
type record struct {
	keys    map[string]bool
	aborted bool
}

// newCopies looks at what is on the disk, and removes what is not to be restored.
func newCopies(e backend.WorkerEnv, limit int64) *copies {
	c := &copies{e: e, limit: limit, wanted: map[string]object{}, mu: world.NewMutex(e.World), files: map[string]file{},
		opened: map[string]*copied{}, records: map[uint64]*record{}}
	for _, r := range e.Restores {
		for _, h := range r.Handles {
			n, ok := h.Narrow(r.Range)
			if !ok {
				continue
			}
			for _, refs := range [][]backend.ObjectRef{n.Base, n.Delta} {
				for _, ref := range refs {
					if ofState(ref.Key) {
						c.wanted[ref.Key] = object{ref.Bytes, ref.CRC32C}
					}
				}
			}
			c.name(h.Checkpoint, keysOf(n))
		}
	}
	names, err := e.Disk.List(folder)
	if err != nil {
		return c // then there are no copies
	}
	for _, name := range names {
		key := strings.TrimPrefix(name, folder)
		if want, ok := c.wanted[key]; ok {
			c.files[key] = file{size: sizeOf(want.bytes), number: c.next}
			c.held += c.files[key].size
			c.next++
		} else {
			_ = e.Disk.Remove(name) // else at the next time
		}
	}
	return c
}

// name records that a checkpoint names objects.
func (c *copies) name(checkpoint uint64, keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[checkpoint]
	if r == nil {
		r = &record{keys: map[string]bool{}}
		c.records[checkpoint] = r
	}
	for _, k := range keys {
		r.keys[k] = true
	}
}

// completed forgets the checkpoints that are retained no longer, and those that were aborted before this one. What only they
// named has no use any more: what a later checkpoint still needs of them, this one names.
func (c *copies) completed(checkpoint, subsumed uint64) {
	c.mu.Lock()
	var ended []*record
	for id, r := range c.records { // order-free: independent entries
		if id <= subsumed || r.aborted && id < checkpoint {
			ended = append(ended, r)
			delete(c.records, id)
		}
	}
	var keys []string
	for _, r := range ended { // order-free: sorted below
		for k := range r.keys { // order-free: sorted below
			if c.users(k) == nil {
				keys = append(keys, k)
			}
		}
	}
	c.mu.Unlock()
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		c.drop(k)
	}
}

// users is a record that names key, one that was not aborted where there is one, or nil; with mu held.
func (c *copies) users(key string) (found *record) {
	for _, r := range c.records { // order-free: any of them will do
		if r.keys[key] && (found == nil || found.aborted) {
			found = r
		}
	}
	return found
}

// aborted notes that a checkpoint will not complete. What it named stays: the next one may name it too.
func (c *copies) aborted(checkpoint uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[checkpoint]; r != nil {
		r.aborted = true
	}
}

// reserve makes room for the copy of key, and tells whether there is.
func (c *copies) reserve(key string, size int64) bool {
	c.mu.Lock()
	var out []string
	if c.held+size > c.limit {
		out = c.spare(c.held + size - c.limit)
	}
	c.mu.Unlock()
	for _, k := range out {
		c.drop(k)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.files[key]; ok || c.held+size > c.limit {
		return false
	}
	c.files[key] = file{size: size, number: c.next, making: true}
	c.next++
	c.held += size
	return true
}

// spare lists the oldest copies that no checkpoint names, or only an aborted one, until they make up size; with mu held.
func (c *copies) spare(size int64) []string {
	var keys []string
	for k, f := range c.files { // order-free: sorted below
		if r := c.users(k); !f.making && (r == nil || r.aborted) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Compare(c.files[a].number, c.files[b].number) })
	for i, k := range keys {
		if size -= c.files[k].size; size <= 0 {
			return keys[:i+1]
		}
	}
	return nil // not enough, so none has to go
}

// made tells that the copy of key is there.
func (c *copies) made(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.files[key]; ok {
		f.making = false
		c.files[key] = f
	}
}

// drop removes the copy of key, if there is one.
func (c *copies) drop(key string) {
	c.mu.Lock()
	f, ok := c.files[key]
	c.held -= f.size
	delete(c.files, key)
	delete(c.opened, key)
	c.mu.Unlock()
	if ok {
		_ = c.e.Disk.Remove(folder + key) // else when the next attempt begins
	}
}

// failed tells, once in an attempt, that a copy could not be made.
func (c *copies) failed(ctx context.Context, key string, err error) {
	c.mu.Lock()
	first := !c.told
	c.told = true
	c.mu.Unlock()
	if first {
		c.note(ctx, fmt.Sprintf("no local copy of %s, and maybe of others: %v", key, err))
	}
}

// spoiled removes a copy that is of no use.
func (c *copies) spoiled(ctx context.Context, key string, err error) {
	c.mu.Lock()
	_, ok := c.files[key]
	c.mu.Unlock()
	c.drop(key)
	if ok {
		c.note(ctx, fmt.Sprintf("%s is read from the store: %v", key, err))
	}
}

func (c *copies) note(ctx context.Context, text string) {
	c.e.Emit(ctx, history.Event{Kind: history.Note, Actor: c.e.Worker, Attempt: c.e.Attempt, Text: text})
}
