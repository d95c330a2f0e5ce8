package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// missing is the error of a read in the simulated world that needs bytes from the store. There nobody may wait within the
// database: a process that is killed would leave its locks behind. Who asked the database fetches them and asks again.
type missing struct {
	t      *farTable
	off, n int64
}

// Error says what is missing.
func (m *missing) Error() string {
	return fmt.Sprintf("object %q: %d bytes at offset %d are not here", m.t.key, m.n, m.off)
}

// tree is the database of a keyed. Bytes of its tables may be in the store alone: then, in the simulated world, its methods
// fetch what they need. In the real one its reads do.
type tree struct {
	*pebble.DB
	k *keyed
}

// fetch tells whether err asked for bytes of a table, which are here now. Else err is left, or the one of fetching.
func (t *tree) fetch(ctx context.Context, err *error) bool {
	var m *missing
	if *err == nil || !errors.As(*err, &m) {
		return false
	}
	*err = m.t.fetch(ctx, m.off, m.n)
	return *err == nil
}

// Get is that of the database.
func (t *tree) Get(key []byte) (value []byte, closer io.Closer, err error) {
	if err := t.k.await(t.k.ctx); err != nil {
		return nil, nil, err
	}
	for {
		if value, closer, err = t.DB.Get(key); err == nil || !t.fetch(t.k.ctx, &err) {
			return value, closer, err
		}
	}
}

// Ingest is that of the database.
func (t *tree) Ingest(ctx context.Context, paths []string) error {
	for {
		if err := t.DB.Ingest(ctx, paths); err == nil || !t.fetch(ctx, &err) {
			return err
		}
	}
}

// IngestExternalFiles is that of the database.
func (t *tree) IngestExternalFiles(ctx context.Context, files []pebble.ExternalFile) error {
	for {
		if _, err := t.DB.IngestExternalFiles(ctx, files); err == nil || !t.fetch(ctx, &err) {
			return err
		}
	}
}

// NewIter is that of the database. An iterator cannot begin again in the middle: in the simulated world all tables within
// its bounds are brought before.
func (t *tree) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	if err := t.k.await(t.k.ctx); err != nil {
		return nil, err
	}
	if t.k.simulated && t.k.remote() {
		for _, f := range t.k.far.tables {
			if bytes.Compare(f.from, o.UpperBound) < 0 && bytes.Compare(o.LowerBound, f.to) <= 0 {
				if err := f.complete(t.k.ctx); err != nil {
					return nil, err
				}
			}
		}
	}
	return t.DB.NewIter(o)
}

// Compact is that of the database. In the simulated world it waits until all is local, since it reads by a thread of its own.
func (t *tree) Compact(ctx context.Context, from, to []byte, parallel bool) error {
	if t.k.simulated {
		if err := t.k.local(ctx); err != nil {
			return err
		}
	}
	return t.DB.Compact(ctx, from, to, parallel)
}
