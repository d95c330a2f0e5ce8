package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
)

// Version is the format version that Encode writes.
//
//	1  the metadata as JSON
//	2  binary, with tables of strings and objects, since one object is named by many subtasks and its key is long
const Version = 2

// An encoded object is: magic (4 bytes), version (2, big-endian), length of the payload (4), payload, CRC32C of all before (4).
const (
	magic      = "SBcm"
	headerSize = 4 + 2 + 4
	tailSize   = 4
)

// seal puts the frame of the given version around a payload that was appended to headerSize free bytes.
func seal(b []byte, version uint16) []byte {
	copy(b, magic)
	binary.BigEndian.PutUint16(b[4:], version)
	binary.BigEndian.PutUint32(b[6:], uint32(len(b)-headerSize))
	return binary.BigEndian.AppendUint32(b, store.CRC32C(b))
}

// unseal checks the frame and returns version and payload.
func unseal(b []byte) (version uint16, payload []byte, err error) {
	if len(b) < headerSize+tailSize || string(b[:4]) != magic {
		return 0, nil, fmt.Errorf("metadata of %d bytes has no header at offset 0: %w", len(b), store.ErrCorrupt)
	}
	if n := int64(binary.BigEndian.Uint32(b[6:])); n != int64(len(b)-headerSize-tailSize) {
		return 0, nil, fmt.Errorf("metadata ends at offset %d, should at %d: %w", len(b), n+headerSize+tailSize, store.ErrCorrupt)
	}
	body := b[:len(b)-tailSize]
	if want, got := binary.BigEndian.Uint32(b[len(body):]), store.CRC32C(body); want != got {
		return 0, nil, fmt.Errorf("metadata has checksum %08x, should be %08x, damaged somewhere from offset 0 on: %w", got, want, store.ErrCorrupt)
	}
	return binary.BigEndian.Uint16(b[4:]), body[headerSize:], nil
}

// Encode writes m in the newest format. The same metadata gives the same bytes.
func Encode(m *Metadata) []byte {
	refs, names := 0, 8 // tables that need not grow are half of the memory
	for i := range m.Subtasks {
		if h := m.Subtasks[i].Keyed; h != nil {
			refs += len(h.Base) + len(h.Delta)
		}
		names += len(m.Subtasks[i].Transactions)
	}
	e := encoder{strings: make(map[string]uint64, names+refs), objects: make(map[object]uint64, refs)}
	e.body(m)
	head := make([]byte, headerSize, headerSize+len(e.out)+64*len(e.objectList)+256)
	head = e.tables(head)
	return seal(append(head, e.out...), Version)
}

// Decode reads what any version of Encode wrote. Damage is an error that wraps store.ErrCorrupt, a newer format one that
// wraps ErrVersion. Empty lists come back as nil.
func Decode(b []byte) (*Metadata, error) {
	version, payload, err := unseal(b)
	if err != nil {
		return nil, err
	}
	switch version {
	case 1:
		var m Metadata
		if err := json.Unmarshal(payload, &m); err != nil {
			return nil, fmt.Errorf("metadata of version 1: %w: %w", store.ErrCorrupt, err)
		}
		return &m, nil
	case 2:
		return decodeBinary(payload)
	}
	return nil, fmt.Errorf("metadata of version %d, newest known is %d: %w; a newer program reads it", version, Version, ErrVersion)
}

// object is a whole object as references name it.
type object struct {
	key   string
	bytes int64
	crc   uint32
}

// encoder writes the body while it collects the tables that go in front of it.
type encoder struct {
	out        []byte
	strings    map[string]uint64
	stringList []string
	objects    map[object]uint64
	objectList []object
}

func (e *encoder) uint(v uint64) { e.out = binary.AppendUvarint(e.out, v) }
func (e *encoder) int(v int64)   { e.out = binary.AppendVarint(e.out, v) }

func (e *encoder) str(s string) { e.uint(e.stringIndex(s)) }

func (e *encoder) stringIndex(s string) uint64 {
	i, ok := e.strings[s]
	if !ok {
		i = uint64(len(e.stringList))
		e.strings[s] = i
		e.stringList = append(e.stringList, s)
	}
	return i
}

func (e *encoder) objectIndex(o object) uint64 {
	i, ok := e.objects[o]
	if !ok {
		i = uint64(len(e.objectList))
		e.objects[o] = i
		e.objectList = append(e.objectList, o)
	}
	return i
}

func (e *encoder) tables(out []byte) []byte {
	for _, o := range e.objectList {
		e.stringIndex(o.key)
	}
	out = binary.AppendUvarint(out, uint64(len(e.stringList)))
	for _, s := range e.stringList {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	out = binary.AppendUvarint(out, uint64(len(e.objectList)))
	for _, o := range e.objectList {
		out = binary.AppendUvarint(out, e.stringIndex(o.key))
		out = binary.AppendVarint(out, o.bytes)
		out = binary.BigEndian.AppendUint32(out, o.crc)
	}
	return out
}

func (e *encoder) body(m *Metadata) {
	e.uint(m.ID)
	e.uint(m.Term)
	e.uint(m.Attempt)
	e.int(int64(m.TriggeredAt))
	e.int(int64(m.Parallelism))
	e.int(int64(m.MaxParallelism))
	e.uint(uint64(len(m.Subtasks)))
	for i := range m.Subtasks {
		e.subtask(&m.Subtasks[i])
	}
}

func (e *encoder) subtask(s *SubtaskState) {
	e.str(s.Operator)
	e.int(int64(s.Index))
	if s.Keyed == nil {
		e.uint(0)
	} else {
		e.uint(1)
		e.handle(s.Keyed)
	}
	e.uint(uint64(len(s.Parts)))
	for _, p := range s.Parts {
		e.uint(uint64(len(p)))
		e.out = append(e.out, p...)
	}
	e.uint(uint64(len(s.Positions)))
	for _, p := range s.Positions {
		e.int(int64(p.Partition))
		e.int(p.Next)
	}
	e.uint(uint64(len(s.Transactions)))
	for _, t := range s.Transactions {
		e.str(t)
	}
}

func (e *encoder) handle(h *backend.StateHandle) {
	e.str(h.Backend)
	e.str(h.Operator)
	e.uint(uint64(h.Range.From))
	e.uint(uint64(h.Range.To))
	e.uint(h.Checkpoint)
	e.uint(h.Materialization)
	e.refs(h.Base)
	e.refs(h.Delta)
}

func (e *encoder) refs(refs []backend.ObjectRef) {
	e.uint(uint64(len(refs)))
	for i := range refs {
		r := &refs[i]
		e.uint(e.objectIndex(object{r.Key, r.Bytes, r.CRC32C}))
		e.int(r.Offset)
		e.int(r.Length)
		e.uint(uint64(r.Groups.From))
		e.uint(uint64(r.Groups.To))
		e.str(r.Log)
		e.uint(r.From)
		e.uint(r.To)
	}
}
