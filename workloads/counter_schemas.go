package workloads

import (
	"encoding/binary"
	"fmt"

	"statebench.dev/bench/backend"
)

// counterSchemas is in how many schemas the counter stores its state. The first one is not declared, as state was before there
// were schemas. The second one stores numbers as varints, the keys of the map in 4 bytes, and the count of a value behind its payload;
// windows and timers stay as they are.
const counterSchemas = 2

// counterStorage is how one schema stores the counter's states.
type counterStorage struct {
	held                              backend.Codec[held]
	slot, element                     backend.Codec[uint64]
	fired                             backend.Codec[int64]
	ofHeld, ofMap, ofElement, ofFired []backend.StateOption
}

func counterStores(schema int) counterStorage {
	first := counterStorage{held: heldCodec{}, slot: backend.Uint64{}, element: backend.Uint64{}, fired: backend.Int64{}}
	if schema < 2 {
		return first
	}
	s := counterStorage{held: heldBehind{}, slot: slotCodec{}, element: varint{}, fired: signedVarint{}}
	held := backend.Convert(first.held, s.held, same[held])
	slot := backend.Convert(first.slot, s.slot, same[uint64])
	element := backend.Convert(first.element, s.element, same[uint64])
	fired := backend.Convert(first.fired, s.fired, same[int64])
	s.ofHeld = []backend.StateOption{backend.WithSchema("held", 2, backend.Migration{From: 1, To: 2, Value: held})}
	s.ofMap = []backend.StateOption{backend.WithSchema("element", 2, backend.Migration{From: 1, To: 2, Value: element, MapKey: slot})}
	s.ofElement = []backend.StateOption{backend.WithSchema("element", 2, backend.Migration{From: 1, To: 2, Value: element})}
	s.ofFired = []backend.StateOption{backend.WithSchema("count", 2, backend.Migration{From: 1, To: 2, Value: fired})}
	return s
}

func same[T any](v T) T { return v }

// heldBehind stores the payload in front of the count.
type heldBehind struct{}

func (heldBehind) Append(dst []byte, v held) []byte {
	return backend.AppendUint64(append(dst, v.payload...), v.count)
}

func (heldBehind) Decode(src []byte) (held, error) {
	n := len(src) - 8
	if n < 0 {
		return held{}, fmt.Errorf("value of %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return held{count: binary.BigEndian.Uint64(src[n:]), payload: src[:n:n]}, nil
}

// slotCodec stores the key of the map, of which there are fewer than 2^32.
type slotCodec struct{}

func (slotCodec) Append(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

func (slotCodec) Decode(src []byte) (uint64, error) {
	if len(src) != 4 {
		return 0, fmt.Errorf("slot in %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return uint64(binary.BigEndian.Uint32(src)), nil
}

// varint stores a number in as few bytes as it needs.
type varint struct{}

func (varint) Append(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

func (varint) Decode(src []byte) (uint64, error) {
	v, n := binary.Uvarint(src)
	if n <= 0 || n != len(src) {
		return 0, fmt.Errorf("varint in %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return v, nil
}

type signedVarint struct{}

func (signedVarint) Append(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

func (signedVarint) Decode(src []byte) (int64, error) {
	v, n := binary.Varint(src)
	if n <= 0 || n != len(src) {
		return 0, fmt.Errorf("varint in %d bytes: %w", len(src), backend.ErrEncoding)
	}
	return v, nil
}
