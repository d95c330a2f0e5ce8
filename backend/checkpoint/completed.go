package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Completed is a completed checkpoint that is retained.
type Completed struct {
	Metadata *Metadata // not changed any more
	Object   ObjectUse // the metadata object
}

// CompletedStore holds the newest completed checkpoints, as many as are to be retained. It is used by one process at a time.
type CompletedStore struct {
	retain int
	list   []*Completed // ids ascend
}

// NewCompletedStore returns an empty one that retains the newest retain checkpoints, 1 at least.
func NewCompletedStore(retain int) *CompletedStore { return &CompletedStore{retain: max(retain, 1)} }

// Clear removes all and returns them, oldest first.
func (s *CompletedStore) Clear() []*Completed {
	all := s.list
	s.list = nil
	return all
}

// Add appends c, whose id must be greater than all before, and returns those that are not retained any more, oldest first.
func (s *CompletedStore) Add(c *Completed) (subsumed []*Completed) {
	if n := s.Newest(); n != nil && n.Metadata.ID >= c.Metadata.ID {
		panic(fmt.Sprintf("checkpoint: %d completed after %d", c.Metadata.ID, n.Metadata.ID))
	}
	s.list = append(s.list, c)
	if over := len(s.list) - s.retain; over > 0 {
		subsumed = slices.Clone(s.list[:over])
		s.list = slices.Delete(s.list, 0, over)
	}
	return subsumed
}

// Newest is the newest one, or nil.
func (s *CompletedStore) Newest() *Completed {
	if len(s.list) == 0 {
		return nil
	}
	return s.list[len(s.list)-1]
}

// Lowest is the lowest retained id; 0 when there is none.
func (s *CompletedStore) Lowest() uint64 {
	if len(s.list) == 0 {
		return 0
	}
	return s.list[0].Metadata.ID
}

// List returns all, oldest first. The slice is the caller's.
func (s *CompletedStore) List() []*Completed { return slices.Clone(s.list) }

// Fetch is Read for a store whose answers may be damaged on the way: it reads again as store.Reread does.
func Fetch(ctx context.Context, w world.World, b store.Bucket, key string) (done *Completed, err error) {
	err = store.Reread(ctx, w, func() (got uint32, err error) {
		done, got, err = read(ctx, b, key)
		return got, err
	})
	return done, err
}

// Read reads the metadata object at key once and checks it. Its errors wrap those of the store, ErrVersion, or store.ErrCorrupt when
// the object is damaged or belongs to another checkpoint.
func Read(ctx context.Context, b store.Bucket, key string) (*Completed, error) {
	done, _, err := read(ctx, b, key)
	return done, err
}

// read also returns the checksum of what came.
func read(ctx context.Context, b store.Bucket, key string) (*Completed, uint32, error) {
	body, err := b.Get(ctx, key)
	if err != nil {
		return nil, 0, fmt.Errorf("read metadata %q: %w", key, err)
	}
	got := store.CRC32C(body)
	m, err := Decode(body)
	if err != nil {
		return nil, got, fmt.Errorf("read metadata %q: %w", key, err)
	}
	if MetadataKey(m.ID, m.Term) != key && SavepointMetadataKey(m.ID, m.Term) != key {
		return nil, got, fmt.Errorf("metadata %q is that of checkpoint %d in term %d: %w", key, m.ID, m.Term, store.ErrCorrupt)
	}
	return &Completed{Metadata: m, Object: ObjectUse{Key: key, Bytes: int64(len(body)), CRC32C: got}}, got, nil
}
