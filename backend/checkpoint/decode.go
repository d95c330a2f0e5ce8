package checkpoint

import (
	"encoding/binary"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// decoder reads a payload of version 2. After the first thing that is wrong everything reads as zero, and err says what it was.
type decoder struct {
	in      []byte
	err     error
	strings []string
	objects []object
}

func decodeBinary(payload []byte) (*Metadata, error) {
	d := decoder{in: payload}
	d.tables()
	m := d.body()
	if d.err == nil && len(d.in) > 0 {
		d.fail("%d bytes too many", len(d.in))
	}
	if d.err != nil {
		return nil, d.err
	}
	return m, nil
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("metadata of version 2: %s: %w", fmt.Sprintf(format, args...), store.ErrCorrupt)
	}
	d.in = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.fail("number expected")
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.in)
	if n <= 0 {
		d.fail("number expected")
		return 0
	}
	d.in = d.in[n:]
	return v
}

// count reads the length of a list whose elements take at least size bytes each, so that damage cannot ask for more
// memory than there is input.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.in)/size) {
		d.fail("list of %d elements in %d bytes", n, len(d.in))
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	b := d.in[:n:n]
	d.in = d.in[n:]
	return b
}

func (d *decoder) crc() uint32 {
	if len(d.in) < 4 {
		d.fail("checksum expected")
		return 0
	}
	v := binary.BigEndian.Uint32(d.in)
	d.in = d.in[4:]
	return v
}

func (d *decoder) str() string {
	i := d.uint()
	if i >= uint64(len(d.strings)) {
		d.fail("string %d of %d", i, len(d.strings))
		return ""
	}
	return d.strings[i]
}

func (d *decoder) group() keygroup.ID {
	v := d.uint()
	if v > keygroup.MaxParallelism {
		d.fail("key group %d", v)
		return 0
	}
	return keygroup.ID(v)
}

func (d *decoder) tables() {
	d.strings = make([]string, d.count(1))
	for i := range d.strings {
		d.strings[i] = string(d.bytes())
	}
	d.objects = make([]object, d.count(6))
	for i := range d.objects {
		d.objects[i] = object{key: d.str(), bytes: d.int(), crc: d.crc()}
	}
}

func (d *decoder) body() *Metadata {
	m := &Metadata{
		ID: d.uint(), Term: d.uint(), Attempt: d.uint(), TriggeredAt: time.Duration(d.int()),
		Parallelism: int(d.int()), MaxParallelism: int(d.int()),
	}
	m.Subtasks = list(d, 6, d.subtask)
	return m
}

// list reads a list whose elements take at least size bytes each; an empty one is nil.
func list[T any](d *decoder, size int, read func() T) []T {
	n := d.count(size)
	if n == 0 {
		return nil
	}
	l := make([]T, n)
	for i := range l {
		l[i] = read()
	}
	return l
}

func (d *decoder) subtask() SubtaskState {
	s := SubtaskState{Operator: d.str(), Index: int(d.int())}
	switch d.uint() {
	case 0:
	case 1:
		s.Keyed = d.handle()
	default:
		d.fail("kind of state unknown")
	}
	s.Parts = list(d, 1, d.bytes)
	s.Positions = list(d, 2, func() Position { return Position{Partition: int(d.int()), Next: d.int()} })
	s.Transactions = list(d, 1, d.str)
	return s
}

func (d *decoder) handle() *backend.StateHandle {
	return &backend.StateHandle{
		Backend: d.str(), Operator: d.str(), Range: keygroup.Range{From: d.group(), To: d.group()},
		Checkpoint: d.uint(), Materialization: d.uint(), Base: list(d, 8, d.ref), Delta: list(d, 8, d.ref),
	}
}

func (d *decoder) ref() backend.ObjectRef {
	i := d.uint()
	if i >= uint64(len(d.objects)) {
		d.fail("object %d of %d", i, len(d.objects))
		return backend.ObjectRef{}
	}
	o := &d.objects[i]
	return backend.ObjectRef{
		Key: o.key, Bytes: o.bytes, CRC32C: o.crc, Offset: d.int(), Length: d.int(),
		Groups: keygroup.Range{From: d.group(), To: d.group()}, Log: d.str(), From: d.uint(), To: d.uint(),
	}
}
