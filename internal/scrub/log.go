package scrub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// ledger is what the coordinator log says of checkpoints, as far as it can be read.
type ledger struct {
	kept       map[uint64]string // retained: key of the metadata
	savepoints map[uint64]string
	completed  map[uint64]string // all that ever completed, savepoints too
	next       uint64            // sequence number that the log goes on with
	pauses     []time.Duration
	before     time.Time
}

// pagedEntries is how many entries of the log are held at a time, entryReaders how many are read.
const (
	pagedEntries = 256
	entryReaders = 16
	pausesKept   = 64
)

// log reads the coordinator log. Damaged entries are findings, and what they said is unknown from there on.
func (a *audit) log(ctx context.Context) error {
	a.known = ledger{kept: map[uint64]string{}, savepoints: map[uint64]string{}, completed: map[uint64]string{}, next: 1}
	var page []store.Attributes
	for at, err := range a.b.List(ctx, checkpoint.EntryPrefix, "") {
		if err != nil {
			return fmt.Errorf("list the coordinator log: %w", err)
		}
		if _, ok := checkpoint.ParseEntryKey(at.Key); !ok {
			continue // foreign: found with the others
		}
		if page = append(page, at); len(page) == pagedEntries {
			if err := a.entries(ctx, page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := a.entries(ctx, page); err != nil {
		return err
	}
	if n := len(a.known.pauses); n > 0 {
		slices.Sort(a.known.pauses)
		a.r.Log.Pause = a.known.pauses[n/2]
	}
	if a.known.next == 1 {
		a.r.unsure("there is no coordinator log")
	}
	return nil
}

// entries reads a page of entries and applies them in order.
func (a *audit) entries(ctx context.Context, page []store.Attributes) error {
	read, errs := make([]checkpoint.Entry, len(page)), make([]error, len(page))
	g := world.NewGroup(a.w)
	for i := range min(entryReaders, len(page)) {
		g.Go(ctx, fmt.Sprintf("scrub-log-%d", i), func(ctx context.Context) error {
			for k := i; k < len(page); k += entryReaders {
				read[k], errs[k] = a.entry(ctx, page[k].Key)
			}
			return nil
		})
	}
	if err := g.Wait(ctx); err != nil {
		return err
	}
	for i, at := range page {
		if err := errs[i]; err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotExist) {
				return fmt.Errorf("read the coordinator log: %w", err)
			}
			a.r.unsure("entry " + at.Key + " of the coordinator log cannot be read")
			if err := a.corrupt(at.Key, err); err != nil {
				return err
			}
			a.known.next++ // what the entry's key would be, were it whole
			continue
		}
		if err := a.apply(read[i], at); err != nil {
			return err
		}
	}
	return nil
}

// entry reads one entry, which must be the one that its key says.
func (a *audit) entry(ctx context.Context, key string) (e checkpoint.Entry, err error) {
	err = store.Reread(ctx, a.w, func() (uint32, error) {
		body, err := a.b.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		e, err = checkpoint.DecodeEntry(body)
		if err == nil && checkpoint.EntryKey(e.Seq) != key {
			err = fmt.Errorf("it is entry %d: %w", e.Seq, store.ErrCorrupt)
		}
		return store.CRC32C(body), err
	})
	return e, err
}

// apply adds the next entry.
func (a *audit) apply(e checkpoint.Entry, at store.Attributes) error {
	h, l := &a.known, &a.r.Log
	if e.Seq != h.next {
		missing := checkpoint.EntryKey(h.next)
		a.r.unsure("entry " + missing + " of the coordinator log is missing")
		f := Finding{Kind: Dangling, Key: missing, Class: ClassCoord, Problem: fmt.Sprintf("the coordinator log goes on with %s", at.Key)}
		if err := a.found(f); err != nil {
			return err
		}
	}
	h.next = e.Seq + 1
	l.Entries++
	if !at.Modified.IsZero() && !strings.HasPrefix(e.Owner, OwnerPrefix) {
		if !h.before.IsZero() {
			if h.pauses = append(h.pauses, at.Modified.Sub(h.before)); len(h.pauses) > pausesKept {
				h.pauses = h.pauses[1:]
			}
		}
		h.before, l.Newest = at.Modified, at.Modified
	}
	switch e.Kind {
	case checkpoint.Takeover:
		l.Term, l.Leader = e.Term, e.Owner
	case checkpoint.Complete:
		h.kept[e.ID], h.completed[e.ID] = e.Metadata, e.Metadata
	case checkpoint.Savepoint:
		h.savepoints[e.ID], h.completed[e.ID] = e.Metadata, e.Metadata
	case checkpoint.Start: // what is not claimed stays, too: it is the user's
		if e.Mode == checkpoint.Claim {
			delete(h.savepoints, e.ID)
			h.kept[e.ID] = e.Metadata
		}
	case checkpoint.Drop:
		delete(h.kept, e.ID)
	}
	return nil
}
