package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// pebbleFile is the number of a table file in one database.
type pebbleFile uint64

// object is a table file in the store.
type object struct {
	key   string
	bytes int64
	crc   uint32
}

// source is a table file of a snapshot: one that is an object already, or a link to one that must become an object.
type source struct {
	file   pebbleFile
	link   string // "": it is an object
	from   string // what the link is made to
	groups keygroup.Range
	object object
	put    bool // the object was put by this snapshot
}

// table is a part of a source within bounds.
type table struct {
	bounds
	source int
	size   int64 // of the part, about
	// layer orders tables: one of a higher layer hides what it has in common with lower ones; those of one layer are disjoint.
	layer int
}

// snapshot is the state as of a barrier: its table files, linked into a folder of its own where they are no objects yet.
type snapshot struct {
	k        *keyed
	id       uint64
	dir      string
	released atomic.Bool
	ok       atomic.Bool // it was persisted
	// savepoint is set for a native savepoint: all its files become objects of its own, and no later snapshot knows of it.
	savepoint *backend.SavepointOptions
	named     uint64 // objects named for a savepoint

	specs     []backend.StateSpec
	positions []uint64
	counts    counts
	sources   []source
	tables    []table
	contested map[pebbleFile]bool // files of which older snapshots that may still complete name another object than is shared
}

// maxListings bounds how often files are listed until all of them could be linked.
const maxListings = 100

// Snapshot implements backend.Keyed: it flushes the memtable and links the table files that no completed checkpoint has.
func (k *keyed) Snapshot(ctx context.Context, id uint64) (backend.Snapshot, error) {
	if !k.life.enter() {
		return nil, errClosed
	}
	defer k.life.leave()
	return k.fix(ctx, id, nil)
}

// fix takes a snapshot, for a native savepoint where o is set.
func (k *keyed) fix(ctx context.Context, id uint64, o *backend.SavepointOptions) (backend.Snapshot, error) {
	if err := k.flush(ctx); err != nil {
		return nil, fmt.Errorf("snapshot %d of %s: %w", id, k.subtask, err)
	}
	s := &snapshot{k: k, id: id, savepoint: o, specs: k.States(), positions: slices.Clone(k.positions), counts: k.counts.clone()}
	s.dir = k.b.fs.PathJoin(k.dir, fmt.Sprintf("snapshot-%d", k.linked))
	k.linked++
	for n := 1; ; n++ {
		err := s.capture()
		if err == nil {
			break
		}
		_ = k.b.fs.RemoveAll(s.dir)
		// A compaction that ended in between has deleted a file: the tables that replace it hold the same.
		if n == maxListings || !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("snapshot %d of %s: %w", id, k.subtask, err)
		}
	}
	k.forget(s)
	if o == nil {
		k.taken = append(k.taken, s)
	}
	k.pay(ctx, k.b.o.Costs.Snapshot)
	return s, nil
}

// capture lists the tables and links the files.
func (s *snapshot) capture() error {
	s.sources, s.tables, s.contested = nil, nil, s.k.contested()
	levels, err := s.k.db.SSTables()
	if err != nil {
		return err
	}
	index := map[pebbleFile]int{}
	layer := 0
	for l := len(levels) - 1; l >= 1; l-- {
		for i := range levels[l] {
			s.add(&levels[l][i], layer, index)
		}
		if len(levels[l]) > 0 {
			layer++
		}
	}
	s.stack(levels[0], layer, index)
	return s.link()
}

// contested are the files of which a snapshot that may still complete names another object than the shared one: once it
// completes, nobody who is retained names the shared one.
func (k *keyed) contested() map[pebbleFile]bool {
	c := map[pebbleFile]bool{}
	for _, s := range k.taken {
		for i := range s.sources {
			// Note: the object of a source with a link is another process's to write.
			if src := &s.sources[i]; src.link != "" || src.object != k.shared[src.file] {
				c[src.file] = true
			}
		}
	}
	return c
}

// stack adds the tables of level 0, which may overlap: each lies above the older ones that it overlaps.
func (s *snapshot) stack(level []pebble.SSTableInfo, layer int, index map[pebbleFile]int) {
	byAge := slices.Clone(level)
	slices.SortFunc(byAge, func(a, b pebble.SSTableInfo) int {
		switch {
		case a.LargestSeqNum != b.LargestSeqNum:
			return cmpUint(uint64(a.LargestSeqNum), uint64(b.LargestSeqNum))
		case a.SmallestSeqNum != b.SmallestSeqNum:
			return cmpUint(uint64(a.SmallestSeqNum), uint64(b.SmallestSeqNum))
		default:
			return cmpUint(uint64(a.FileNum), uint64(b.FileNum))
		}
	})
	first := len(s.tables)
	for i := range byAge {
		at := layer
		b := boundsOf(&byAge[i])
		for _, older := range s.tables[first:] {
			if older.layer >= at && older.overlaps(b) {
				at = older.layer + 1
			}
		}
		s.add(&byAge[i], at, index)
	}
}

func cmpUint(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

func boundsOf(t *pebble.SSTableInfo) bounds {
	return bounds{from: t.Smallest.UserKey, to: t.Largest.UserKey, closed: !t.Largest.IsExclusiveSentinel()}
}

func (b bounds) overlaps(o bounds) bool { return !b.before(o) && !o.before(b) }

// before tells whether b ends before o begins.
func (b bounds) before(o bounds) bool {
	c := bytes.Compare(b.to, o.from)
	return c < 0 || c == 0 && !b.closed
}

// add adds a table, and its file when it is the first one in it.
func (s *snapshot) add(t *pebble.SSTableInfo, layer int, index map[pebbleFile]int) {
	b, ok := boundsOf(t).clip(s.k.rng)
	if !ok {
		return
	}
	file := pebbleFile(t.BackingSSTNum)
	i, known := index[file]
	if !known {
		i = len(s.sources)
		index[file] = i
		src := source{file: file, groups: b.groups()}
		restored, attached := s.k.bucket.objects[file]
		if o, ok := s.k.shared[file]; s.savepoint == nil && attached && !s.k.borrowed {
			src.object = restored
		} else if s.savepoint == nil && ok && !s.contested[file] {
			src.object = o
		} else {
			src.link = t.BackingSSTNum.String() + ".sst"
			src.from = s.k.b.fs.PathJoin(s.k.dir, "db", src.link)
			if attached {
				src.from = s.k.bucket.path(restored.key)
			}
		}
		s.sources = append(s.sources, src)
	}
	g, src := b.groups(), &s.sources[i]
	src.groups = keygroup.Range{From: min(src.groups.From, g.From), To: max(src.groups.To, g.To)}
	s.tables = append(s.tables, table{bounds: b, source: i, size: int64(t.Size), layer: layer})
}

// link gives the files that are no objects another name, under which they stay when the database is done with them.
func (s *snapshot) link() error {
	f, made := s.k.b.fs, false
	for _, src := range s.sources {
		if src.link == "" {
			continue
		}
		if !made {
			if err := f.MkdirAll(s.dir, 0o755); err != nil {
				return err
			}
			made = true
		}
		if err := f.Link(src.from, f.PathJoin(s.dir, src.link)); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what is known of files that are not in the database any more, and downloads among them.
func (k *keyed) forget(s *snapshot) {
	live := make(map[pebbleFile]bool, len(s.sources))
	for _, src := range s.sources {
		live[src.file] = true
	}
	for file := range k.shared { // order-free: independent entries
		if !live[file] {
			delete(k.shared, file)
		}
	}
	k.bucket.retain(live)
}

// Release implements backend.Snapshot.
func (s *snapshot) Release() {
	if !s.released.Swap(true) {
		_ = s.k.b.fs.RemoveAll(s.dir) // else with the subtask's folder
	}
}

// Completed implements backend.Keyed: later snapshots refer to the objects of this one, as far as its files are still in
// the database. They can: a file that a completed checkpoint and a later snapshot have is in all snapshots between, so
// somebody who is retained has always named its object; contested sees to it that it is the same one. Objects of
// checkpoints that did not complete are not used again.
func (k *keyed) Completed(_ context.Context, id, _ uint64) error {
	kept := k.taken[:0]
	for _, s := range k.taken {
		switch {
		case s.id == id && s.ok.Load():
			for _, src := range s.sources {
				if _, ok := k.bucket.objects[src.file]; !ok || k.borrowed {
					k.shared[src.file] = src.object
				}
			}
		case s.id < id && s.released.Load():
		case s.id != id:
			kept = append(kept, s)
		}
	}
	clear(k.taken[len(kept):])
	k.taken = kept
	return nil
}

// Aborted implements backend.Keyed.
func (k *keyed) Aborted(_ context.Context, id uint64) error {
	k.taken = slices.DeleteFunc(k.taken, func(s *snapshot) bool { return s.id == id })
	return nil
}
