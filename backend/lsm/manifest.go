package lsm

import (
	"encoding/binary"
	"fmt"
	"slices"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// A manifest, version 1 or 2; integers are big-endian; its checksum is in the reference to it:
//
//	magic "sblsm", version uint16
//	states uint16, each: type uint8, access uint8, name (length uint16), and in version 2: version uint32 and serializer
//	  (length uint16) of its schema
//	key groups uint32, each that has something to say: group uint16, position uint64, elements int64, bytes int64
//	objects uint32, each: bytes uint64, crc32c uint32, key (length uint16)
//	tables uint32, each: object uint32, layer uint32, size uint64, closed uint8, from (length uint32), to (length uint32)
//
// Positions are those of list elements (keyed.positions), elements and bytes what counts estimates. Tables are in order of
// their layers, lowest first; from and to are stored keys. Version 2 is written where a state has a schema, else version 1, whose
// states have none.
const (
	magic         = "sblsm"
	plainVersion  = 1
	schemaVersion = 2
)

// encode makes the manifest. All objects have been put.
func (s *snapshot) encode() []byte {
	be := binary.BigEndian
	version := uint16(plainVersion)
	if slices.ContainsFunc(s.specs, func(s backend.StateSpec) bool { return s.Schema != backend.Schema{} }) {
		version = schemaVersion
	}
	b := be.AppendUint16([]byte(magic), version)
	b = be.AppendUint16(b, uint16(len(s.specs)))
	for _, spec := range s.specs {
		b = append(b, byte(spec.Type), byte(spec.Access))
		b = append(be.AppendUint16(b, uint16(len(spec.Name))), spec.Name...)
		if version == schemaVersion {
			b = be.AppendUint16(be.AppendUint32(b, spec.Schema.Version), uint16(len(spec.Schema.Serializer)))
			b = append(b, spec.Schema.Serializer...)
		}
	}
	at, n := len(b), uint32(0)
	b = be.AppendUint32(b, 0)
	for i, position := range s.positions {
		elements, size := s.counts.elements[i], s.counts.bytes[i]
		if position == 0 && elements == 0 && size == 0 {
			continue
		}
		b = be.AppendUint16(b, uint16(s.k.rng.From)+uint16(i))
		b = be.AppendUint64(be.AppendUint64(be.AppendUint64(b, position), uint64(elements)), uint64(size))
		n++
	}
	be.PutUint32(b[at:], n)
	b = be.AppendUint32(b, uint32(len(s.sources)))
	for _, src := range s.sources {
		b = be.AppendUint32(be.AppendUint64(b, uint64(src.object.bytes)), src.object.crc)
		b = append(be.AppendUint16(b, uint16(len(src.object.key))), src.object.key...)
	}
	b = be.AppendUint32(b, uint32(len(s.tables)))
	for _, t := range s.tables {
		b = be.AppendUint32(be.AppendUint32(b, uint32(t.source)), uint32(t.layer))
		b = be.AppendUint64(b, uint64(t.size))
		closed := byte(0)
		if t.closed {
			closed = 1
		}
		b = append(b, closed)
		b = append(be.AppendUint32(b, uint32(len(t.from))), t.from...)
		b = append(be.AppendUint32(b, uint32(len(t.to))), t.to...)
	}
	return b
}

// groupFigures is what a manifest says of a key group.
type groupFigures struct {
	group           keygroup.ID
	position        uint64
	elements, bytes int64
}

// manifest is one that was read.
type manifest struct {
	states  []backend.StateSpec
	groups  []groupFigures
	objects []object
	tables  []table
}

// damaged is the error for an object that does not say what was written.
func damaged(key, format string, args ...any) error {
	return fmt.Errorf("object %q: %s: %w", key, fmt.Sprintf(format, args...), store.ErrCorrupt)
}

// parseManifest reads the manifest called key.
func parseManifest(key string, b []byte) (m manifest, err error) {
	r := backend.NewReader(b)
	if string(r.Next(len(magic))) != magic {
		return m, damaged(key, "not a manifest of an lsm snapshot")
	}
	v := r.Uint16()
	if v != plainVersion && v != schemaVersion {
		return m, damaged(key, "format version %d is not known", v)
	}
	for range r.Uint16() {
		s := backend.StateSpec{Type: backend.Type(r.Uint8()), Access: backend.Access(r.Uint8())}
		s.Name = string(r.Next(int(r.Uint16())))
		if v == schemaVersion {
			s.Schema.Version = r.Uint32()
			s.Schema.Serializer = string(r.Next(int(r.Uint16())))
		}
		m.states = append(m.states, s)
	}
	for range count(&r, len(b)) {
		m.groups = append(m.groups, groupFigures{keygroup.ID(r.Uint16()), r.Uint64(), int64(r.Uint64()), int64(r.Uint64())})
	}
	for range count(&r, len(b)) {
		o := object{bytes: int64(r.Uint64()), crc: r.Uint32()}
		o.key = string(r.Next(int(r.Uint16())))
		m.objects = append(m.objects, o)
	}
	for range count(&r, len(b)) {
		t := table{source: int(r.Uint32()), layer: int(r.Uint32()), size: int64(r.Uint64())}
		t.closed = r.Uint8() == 1
		t.from, t.to = r.Next(int(r.Uint32())), r.Next(int(r.Uint32()))
		if t.source >= len(m.objects) || len(t.from) < 2 || len(t.to) < 2 {
			return m, damaged(key, "table of object %d from %x to %x", t.source, t.from, t.to)
		}
		m.tables = append(m.tables, t)
	}
	if err := r.Close(); err != nil {
		return m, damaged(key, "%v", err)
	}
	return m, nil
}

// count reads how many items follow; a number that the manifest has no room for counts as none, and fails later.
func count(r *backend.Reader, size int) uint32 {
	if n := r.Uint32(); int64(n) <= int64(size) {
		return n
	}
	return 0
}
