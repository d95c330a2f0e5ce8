package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

var errClosed = errors.New("lsm state is closed")

// keyed is the working state of one subtask.
type keyed struct {
	b         *Backend
	ctx       context.Context // of the loop
	operator  string
	subtask   string
	rng       keygroup.Range
	names     func(n uint64) string
	objects   atomic.Uint64 // objects named so far
	simulated bool
	owed      time.Duration // cost of operations not paid yet
	life      life

	dir    string
	db     *tree
	bucket *attached // tables of earlier attempts
	// borrowed says that those are somebody else's: no snapshot names them.
	borrowed bool
	far      *lazy      // the restore that goes on beside the loop, nil for none
	replay   *replaying // nil: the log was applied, or there is none
	failure  failure
	pending  int64 // bytes written and not known to be flushed; 0: nothing was written
	flushes  int   // since the last compaction, in the simulated world

	rows         *rows // current values of point states
	tableOptions sstable.WriterOptions
	spills       atomic.Uint64 // tables written by them so far
	ahead        *ahead        // the spill that runs beside the loop, nil for none

	states []state
	// positions has for each key group a number greater than all positions of list elements ever used in it.
	positions []uint64
	counts    counts
	key, end  []byte // buffers for stored keys
	lent      lent

	shared map[pebbleFile]object // objects of a completed checkpoint, by the local file they were made of
	taken  []*snapshot           // that are not known to have completed or not
	linked int                   // folders for links given out

	viewMu sync.Mutex
	views  []*pebble.Snapshot // of canonical savepoints that are not released
}

// state is one registered state.
type state struct {
	spec backend.StateSpec
	tag  uint32
}

var (
	_ backend.Keyed      = (*keyed)(nil)
	_ backend.Positioned = (*keyed)(nil)
	_ backend.Migrator   = (*keyed)(nil)
)

func newKeyed(ctx context.Context, b *Backend, o backend.OpenOptions) *keyed {
	k := &keyed{
		b: b, ctx: ctx, operator: o.Operator, subtask: o.Subtask, rng: o.Range, names: o.Names, borrowed: o.Borrowed,
		simulated: b.e.World.Simulated(), positions: make([]uint64, o.Range.Len()), shared: map[pebbleFile]object{},
	}
	k.rows = newRows(k.rowLimit())
	k.counts = newCounts(o.Range, b.o.CountEvery, b.e.World.Rand("lsm/"+o.Subtask))
	k.life.end = k.discard
	k.failure.set = make(chan struct{})
	return k
}

// Range implements backend.Keyed.
func (k *keyed) Range() keygroup.Range { return k.rng }

// Register implements backend.Keyed.
func (k *keyed) Register(spec backend.StateSpec) (backend.StateID, error) {
	if k.life.dead.Load() {
		return 0, errClosed
	}
	tag := tagOf(spec.Name)
	for id, s := range k.states {
		switch known := s.spec; {
		case known.Name == spec.Name:
			return backend.StateID(id), known.Clash(spec)
		case s.tag == tag:
			return 0, fmt.Errorf("states %q and %q cannot be told apart by the hash of their names: rename one", spec.Name, known.Name)
		}
	}
	switch {
	case spec.Access != backend.Point && spec.Access != backend.Ordered:
		return 0, fmt.Errorf("state %q has no access %d", spec.Name, spec.Access)
	case len(k.states) > math.MaxUint16:
		return 0, fmt.Errorf("state %q is one too many: %d are registered", spec.Name, len(k.states))
	}
	k.states = append(k.states, state{spec, tag})
	return backend.StateID(len(k.states) - 1), nil
}

// States implements backend.Keyed.
func (k *keyed) States() []backend.StateSpec {
	specs := make([]backend.StateSpec, len(k.states))
	for i, s := range k.states {
		specs[i] = s.spec
	}
	return specs
}

// place checks an address and puts the stored key into k.key.
func (k *keyed) place(id backend.StateID, g keygroup.ID, key []byte) (backend.StateSpec, error) {
	switch {
	case int(id) >= len(k.states):
		return backend.StateSpec{}, fmt.Errorf("state %d of %s is not registered", id, k.subtask)
	case !k.rng.Contains(g):
		return backend.StateSpec{}, fmt.Errorf("key group %d is not in %v of %s", g, k.rng, k.subtask)
	}
	s := k.states[id]
	k.key = append(appendPrefix(k.key[:0], g, s.tag), key...)
	return s.spec, nil
}

// orderedPlace is place for what only ordered states can do.
func (k *keyed) orderedPlace(a backend.Addr) error {
	spec, err := k.place(a.State, a.Group, a.Key)
	if err == nil && spec.Access != backend.Ordered {
		return fmt.Errorf("state %q is not ordered", spec.Name)
	}
	return err
}

// Get implements backend.Keyed.
func (k *keyed) Get(a backend.Addr) ([]byte, bool, error) {
	k.owe(k.b.o.Costs.Get)
	if !k.life.enter() {
		return nil, false, errClosed
	}
	defer k.life.leave()
	spec, err := k.place(a.State, a.Group, a.Key)
	if err != nil {
		return nil, false, err
	}
	if spec.Access == backend.Point {
		return k.getRow()
	}
	value, closer, err := k.db.Get(k.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	kept := k.lent.keep(value)
	return kept, true, closer.Close()
}

// Put implements backend.Keyed.
func (k *keyed) Put(a backend.Addr, value []byte) error {
	_, err := k.change(a, value, false)
	return err
}

// change puts an element, or deletes it if gone.
func (k *keyed) change(a backend.Addr, value []byte, gone bool) (deferred bool, err error) {
	k.owe(k.b.o.Costs.Write)
	if !k.life.enter() {
		return false, errClosed
	}
	defer k.life.leave()
	spec, err := k.place(a.State, a.Group, a.Key)
	switch {
	case err != nil:
		return false, err
	case spec.Access == backend.Point:
		return k.setRow(value, gone)
	case gone:
		return false, k.remove(a.Group)
	}
	return false, k.put(a.Group, value)
}

// put stores value at k.key.
func (k *keyed) put(g keygroup.ID, value []byte) error {
	if w := k.counts.sample(); w > 0 {
		old, ok, err := k.size()
		if err != nil {
			return err
		}
		if ok {
			k.counts.add(g, 0, w*int64(len(value)-old))
		} else {
			k.counts.add(g, w, w*int64(k.keySize()+len(value)))
		}
	}
	return k.write(len(k.key)+len(value), func() error { return k.db.Set(k.key, value, pebble.NoSync) })
}

// keySize is the size of the element's key at k.key.
func (k *keyed) keySize() int { return len(k.key) - prefixSize }

// size is the size of the value at k.key.
func (k *keyed) size() (n int, ok bool, err error) {
	value, closer, err := k.db.Get(k.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return len(value), true, closer.Close()
}

// Delete implements backend.Keyed.
func (k *keyed) Delete(a backend.Addr) error {
	_, err := k.change(a, nil, true)
	return err
}

// remove deletes what is at k.key.
func (k *keyed) remove(g keygroup.ID) error {
	if w := k.counts.sample(); w > 0 {
		old, ok, err := k.size()
		if err != nil {
			return err
		}
		if ok {
			k.counts.add(g, -w, -w*int64(k.keySize()+old))
		}
	}
	return k.write(len(k.key), func() error { return k.db.Delete(k.key, pebble.NoSync) })
}

// Append implements backend.Keyed.
func (k *keyed) Append(a backend.Addr, value []byte) (uint64, error) {
	k.owe(k.b.o.Costs.Write)
	if !k.life.enter() {
		return 0, errClosed
	}
	defer k.life.leave()
	if err := k.orderedPlace(a); err != nil {
		return 0, err
	}
	i := a.Group - k.rng.From
	pos := k.positions[i]
	k.key = binary.BigEndian.AppendUint64(k.key, pos)
	err := k.write(len(k.key)+len(value), func() error { return k.db.Set(k.key, value, pebble.NoSync) })
	if err != nil {
		return 0, err
	}
	k.counts.add(a.Group, 1, int64(k.keySize()+len(value)))
	k.positions[i]++
	return pos, nil
}

// PutAt implements backend.Positioned: Append at a position that is known. Doing it twice is doing it once.
func (k *keyed) PutAt(a backend.Addr, pos uint64, value []byte) error {
	k.owe(k.b.o.Costs.Write)
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	if err := k.orderedPlace(a); err != nil {
		return err
	}
	k.key = binary.BigEndian.AppendUint64(k.key, pos)
	if err := k.put(a.Group, value); err != nil {
		return err
	}
	i := a.Group - k.rng.From
	k.positions[i] = max(k.positions[i], pos+1)
	return nil
}

// fewElements is up to how many elements DeletePrefix deletes one by one. Range tombstones in a memtable are sorted anew by the
// first read after each, which would make clearing many small lists quadratic.
const fewElements = 64

// DeletePrefix implements backend.Keyed. It reads what it deletes, in order to count it.
func (k *keyed) DeletePrefix(a backend.Addr) error {
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	if err := k.orderedPlace(a); err != nil {
		return err
	}
	k.end = appendSuccessor(k.end[:0], k.key)
	it, err := k.db.NewIter(&pebble.IterOptions{LowerBound: k.key, UpperBound: k.end})
	if err != nil {
		return err
	}
	var few [][]byte
	n := int64(0)
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n <= fewElements {
			few = append(few, append([]byte(nil), it.Key()...))
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		k.counts.add(a.Group, -1, -int64(len(it.Key())-prefixSize+len(v)))
	}
	if err := it.Close(); err != nil || n == 0 {
		return err
	}
	k.owe(time.Duration(n) * k.b.o.Costs.Scan)
	if n > fewElements {
		return k.write(len(k.key)+len(k.end), func() error { return k.db.DeleteRange(k.key, k.end, pebble.NoSync) })
	}
	for _, key := range few {
		if err := k.write(len(key), func() error { return k.db.Delete(key, pebble.NoSync) }); err != nil {
			return err
		}
	}
	return nil
}

// Scan implements backend.Keyed.
func (k *keyed) Scan(id backend.StateID, g keygroup.ID, prefix []byte, f func(key, value []byte) bool) error {
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	spec, err := k.place(id, g, prefix)
	switch {
	case err != nil:
		return err
	case spec.Access != backend.Ordered && len(prefix) > 0:
		return fmt.Errorf("state %q is not ordered: it cannot be scanned by prefix", spec.Name)
	case spec.Access == backend.Point:
		if err := k.flush(k.ctx); err != nil { // only the tree is scanned
			return err
		}
	}
	// The buffers are used again by reads that f makes.
	from := append([]byte(nil), k.key...)
	it, err := k.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: appendSuccessor(nil, from)})
	if err != nil {
		return err
	}
	return k.scan(it, f)
}

func (k *keyed) scan(it *pebble.Iterator, f func(key, value []byte) bool) (err error) {
	defer func() { err = errors.Join(err, it.Close()) }() // also when f unwinds
	n := time.Duration(0)
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		n++
		if !f(k.lent.keep(it.Key()[prefixSize:]), k.lent.keep(v)) {
			break
		}
	}
	if k.simulated {
		k.owed += k.b.o.Costs.Get + n*k.b.o.Costs.Scan // paid by the next operation
	}
	return nil
}

// Close implements backend.Keyed. A second call does nothing. A snapshot that is being persisted fails.
func (k *keyed) Close(ctx context.Context) error {
	k.abandon(ctx)
	k.life.kill()
	k.failure.mu.Lock()
	defer k.failure.mu.Unlock()
	return k.failure.closing
}

// discard closes the database and removes its files. The last user calls it.
func (k *keyed) discard() {
	if k.db != nil {
		k.closeViews()
		err := k.db.Close()
		k.failure.mu.Lock()
		k.failure.closing = err
		k.failure.mu.Unlock()
	}
	// Links of snapshots too: whoever still persists one was ended, or fails now.
	_ = k.b.fs.RemoveAll(k.dir)
	k.b.leave(k)
}
