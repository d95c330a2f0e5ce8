package checkpoint

import (
	"slices"

	"statebench.dev/bench/backend"
)

// Registry knows every object that some checkpoint's acknowledgement named and that was not handed out for deletion,
// with the highest checkpoint that did: its last use. It is used by one process at a time.
//
// An object of which the last use is below the lowest retained checkpoint is dead: a subtask names its objects in every
// checkpoint as long as it needs them, and never again afterwards. So there is nothing to count. What a checkpoint that was
// late, declined or aborted named is registered all the same and dies in this way.
//
// The cost of a call is proportional to the references it is given, or to the objects that change; nothing scans all.
type Registry struct {
	objects map[string]*used
	// uses lists, by last use, the objects that had it when they were added to the list; those that moved on since are
	// skipped later. Each registration adds at most one element, so the skipping is paid for.
	uses map[uint64][]*used
	ids  []uint64 // keys of uses, ascending
	// previous are the objects of the newest completed checkpoint.
	previous   []*used
	previousID uint64
	// touched counts the references and entries looked at: what the time of a call is proportional to.
	touched int64
}

type used struct {
	ObjectUse
	last      uint64 // highest checkpoint that named it
	completed uint64 // highest completed one that did
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{objects: map[string]*used{}, uses: map[uint64][]*used{}}
}

// Len is the number of objects known.
func (r *Registry) Len() int { return len(r.objects) }

// Touched is the number of references and entries that all calls so far have looked at.
func (r *Registry) Touched() int64 { return r.touched }

// Known tells whether the object is registered, that is, whether somebody may still need it.
func (r *Registry) Known(key string) bool { return r.objects[key] != nil }

// Register notes that checkpoint id names the objects of h, which may be nil.
func (r *Registry) Register(h *backend.StateHandle, id uint64) {
	if h == nil {
		return
	}
	for i := range h.Base {
		r.use(&h.Base[i], id)
	}
	for i := range h.Delta {
		r.use(&h.Delta[i], id)
	}
}

func (r *Registry) use(ref *backend.ObjectRef, id uint64) *used {
	r.touched++
	u := r.objects[ref.Key]
	switch {
	case u == nil:
		u = &used{ObjectUse: ObjectUse{Key: ref.Key, Bytes: ref.Bytes, CRC32C: ref.CRC32C}}
		r.objects[ref.Key] = u
	case id <= u.last:
		return u
	}
	u.last = id
	if _, ok := r.uses[id]; !ok {
		at, _ := slices.BinarySearch(r.ids, id)
		r.ids = slices.Insert(r.ids, at, id)
	}
	r.uses[id] = append(r.uses[id], u)
	return u
}

// Complete notes that the checkpoint with metadata m completed, registers what it names, and returns the difference to
// the completed one before. Ids must grow from call to call. meta is the metadata object.
func (r *Registry) Complete(m *Metadata, meta ObjectUse) RefsChange {
	c := RefsChange{Checkpoint: m.ID, Term: m.Term, Attempt: m.Attempt, Meta: meta}
	now := make([]*used, 0, len(r.previous))
	each(m, func(ref *backend.ObjectRef) {
		u := r.use(ref, m.ID)
		switch u.completed {
		case m.ID:
			return
		case 0:
			c.Added = append(c.Added, u.ObjectUse)
		default:
			if u.completed != r.previousID {
				c.Added = append(c.Added, u.ObjectUse)
			}
		}
		u.completed = m.ID
		now = append(now, u)
	})
	r.touched += int64(len(r.previous))
	for _, u := range r.previous {
		if u.completed != m.ID {
			c.Dropped = append(c.Dropped, u.Key)
		}
	}
	r.previous, r.previousID = now, m.ID
	return c
}

// UnregisterUnused forgets and returns the objects that no checkpoint from lowest on named: with lowest the lowest retained
// checkpoint they may be deleted, once the log says that those below are dropped. They come in the order of their last use,
// and each only once.
func (r *Registry) UnregisterUnused(lowest uint64) []ObjectUse {
	var dead []ObjectUse
	n := 0
	for ; n < len(r.ids) && r.ids[n] < lowest; n++ {
		id := r.ids[n]
		r.touched += int64(len(r.uses[id]))
		for _, u := range r.uses[id] {
			if u.last == id {
				delete(r.objects, u.Key)
				dead = append(dead, u.ObjectUse)
			}
		}
		delete(r.uses, id)
	}
	r.ids = slices.Delete(r.ids, 0, n)
	return dead
}

// each calls f for every reference of a checkpoint.
func each(m *Metadata, f func(ref *backend.ObjectRef)) {
	for i := range m.Subtasks {
		h := m.Subtasks[i].Keyed
		if h == nil {
			continue
		}
		for j := range h.Base {
			f(&h.Base[j])
		}
		for j := range h.Delta {
			f(&h.Delta[j])
		}
	}
}

// Objects lists the objects that a checkpoint names, each once, in the order in which they are named first.
func (m *Metadata) Objects() []ObjectUse {
	var list []ObjectUse
	seen := map[string]bool{}
	each(m, func(ref *backend.ObjectRef) {
		if !seen[ref.Key] {
			seen[ref.Key] = true
			list = append(list, ObjectUse{Key: ref.Key, Bytes: ref.Bytes, CRC32C: ref.CRC32C})
		}
	})
	return list
}
