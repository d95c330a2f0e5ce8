package backend

import "statebench.dev/bench/internal/keygroup"

// ObjectRef names a part of a stored object.
type ObjectRef struct {
	Key    string         `json:"key"`
	Bytes  int64          `json:"bytes"`          // of the whole object
	CRC32C uint32         `json:"crc32c"`         // of the whole object
	Offset int64          `json:"offset"`         // where the part begins
	Length int64          `json:"length"`         // of the part, in bytes
	Groups keygroup.Range `json:"groups"`         // the key groups for which the part is to be read; rescaling narrows it
	Log    string         `json:"log,omitempty"`  // for a log part: the log (writer) whose changes it holds
	From   uint64         `json:"from,omitempty"` // for a log part: its sequence numbers [From, To)
	To     uint64         `json:"to,omitempty"`
}

// StateHandle says where one subtask's snapshot lies: plain data that rescaling and restoring work on.
// The state is the union of Base, then Delta replayed on top in order.
type StateHandle struct {
	Backend         string         `json:"backend"` // format of Base: the nested backend's name
	Operator        string         `json:"operator"`
	Range           keygroup.Range `json:"range"`
	Checkpoint      uint64         `json:"checkpoint"`
	Materialization uint64         `json:"materialization"` // id of the newest materialization in Base; 0: none
	Base            []ObjectRef    `json:"base"`
	Delta           []ObjectRef    `json:"delta"`
}

// BaseBytes is the size of the base parts.
func (h StateHandle) BaseBytes() int64 { return sum(h.Base) }

// DeltaBytes is the size of the delta parts.
func (h StateHandle) DeltaBytes() int64 { return sum(h.Delta) }

// FullBytes is what a restore of the handle has to read at most.
func (h StateHandle) FullBytes() int64 { return h.BaseBytes() + h.DeltaBytes() }

func sum(refs []ObjectRef) (n int64) {
	for _, r := range refs {
		n += r.Length
	}
	return n
}

// Narrow returns the part of h that lies in r: key-group ranges of the handle and of every part are intersected with r,
// parts without a key group left are dropped. ok is false when nothing of the handle's range is in r.
// It is this narrowing, kept in the handles, that makes two rescales in a row without a materialization safe.
func (h StateHandle) Narrow(r keygroup.Range) (_ StateHandle, ok bool) {
	n := h
	n.Range = h.Range.Intersect(r)
	if n.Range.Empty() {
		return StateHandle{}, false
	}
	n.Base, n.Delta = narrow(h.Base, n.Range), narrow(h.Delta, n.Range)
	return n, true
}

func narrow(refs []ObjectRef, r keygroup.Range) []ObjectRef {
	var kept []ObjectRef
	for _, ref := range refs {
		if g := ref.Groups.Intersect(r); !g.Empty() {
			ref.Groups = g
			kept = append(kept, ref)
		}
	}
	return kept
}
