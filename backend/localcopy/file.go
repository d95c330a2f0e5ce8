package localcopy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// A copy is a file: the object, the CRC32C of each 64 KiB of it, and a tail of length (8 bytes, little-endian), CRC32C of the object (4),
// CRC32C of the checksums before (4) and a mark (8). What is read of it is verified, however little.
const (
	blockSize = 64 << 10
	tailSize  = 24
	tailMark  = "LOCALCP1"
	folder    = "copies/"
)

// sizeOf is the size of the copy of an object.
func sizeOf(object int64) int64 { return object + 4*blocksOf(object) + tailSize }

func blocksOf(object int64) int64 { return (object + blockSize - 1) / blockSize }

// copied is a copy whose tail was verified.
type copied struct {
	length int64
	sums   []byte // of the blocks
}

// object is what the handles to be restored say of an object.
type object struct {
	bytes int64
	crc   uint32
}

// errDamaged is about a copy that is not one of the object.
var errDamaged = errors.New("local copy is damaged")

// trailer is what follows the object in its copy.
func trailer(body []byte) []byte {
	b := make([]byte, 0, 4*blocksOf(int64(len(body)))+tailSize)
	for at := 0; at < len(body); at += blockSize {
		b = binary.LittleEndian.AppendUint32(b, store.CRC32C(body[at:min(len(body), at+blockSize)]))
	}
	sums := store.CRC32C(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(body)))
	b = binary.LittleEndian.AppendUint32(b, store.CRC32C(body))
	b = binary.LittleEndian.AppendUint32(b, sums)
	return append(b, tailMark...)
}

// write makes the copy of an object durable.
func (c *copies) write(ctx context.Context, key string, body []byte) error {
	name := folder + key
	f, err := c.e.Disk.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	c.e.World.Compute(ctx, time.Duration(len(body))*costPerByte)
	if err == nil {
		_, err = f.Write(trailer(body))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return c.e.Disk.Sync(name)
}

// read returns up to n bytes from off of a wanted object; an error means that its copy is of no use.
func (c *copies) read(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 {
		return nil, fs.ErrInvalid
	}
	f, err := c.e.Disk.Open(folder + key)
	if err != nil {
		return nil, err
	}
	body, err := c.readFile(f, key, off, n)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	c.e.World.Compute(ctx, time.Duration(len(body))*costPerByte)
	return body, nil
}

func (c *copies) readFile(f world.File, key string, off, n int64) ([]byte, error) {
	p, err := c.open(f, key)
	if err != nil {
		return nil, err
	}
	off = min(off, p.length)
	n = min(n, p.length-off)
	first, end := off/blockSize*blockSize, min(p.length, blocksOf(off+n)*blockSize)
	if n == 0 {
		return []byte{}, nil
	}
	b := make([]byte, end-first)
	if err := readFull(f, b, first); err != nil {
		return nil, err
	}
	for at := int64(0); at < int64(len(b)); at += blockSize {
		sum := p.sums[(first+at)/blockSize*4:]
		if store.CRC32C(b[at:min(int64(len(b)), at+blockSize)]) != binary.LittleEndian.Uint32(sum) {
			return nil, fmt.Errorf("%w: block at %d has another checksum", errDamaged, first+at)
		}
	}
	if want := c.wanted[key]; n == want.bytes && store.CRC32C(b) != want.crc {
		return nil, fmt.Errorf("%w: it has another checksum", errDamaged)
	}
	return b[off-first:][:n:n], nil
}

// open verifies the tail of a copy, the first time that it is read in an attempt.
func (c *copies) open(f world.File, key string) (*copied, error) {
	c.mu.Lock()
	p := c.opened[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	want := c.wanted[key]
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size != sizeOf(want.bytes) {
		return nil, fmt.Errorf("%w: it has %d bytes, not %d", errDamaged, size, sizeOf(want.bytes))
	}
	b := make([]byte, size-want.bytes)
	if err := readFull(f, b, want.bytes); err != nil {
		return nil, err
	}
	sums, tail := b[:len(b)-tailSize], b[len(b)-tailSize:]
	switch {
	case string(tail[16:]) != tailMark || binary.LittleEndian.Uint32(tail[12:]) != store.CRC32C(sums):
		return nil, fmt.Errorf("%w: its tail cannot be read", errDamaged)
	case binary.LittleEndian.Uint64(tail) != uint64(want.bytes) || binary.LittleEndian.Uint32(tail[8:]) != want.crc:
		return nil, fmt.Errorf("%w: it is one of another object", errDamaged)
	}
	p = &copied{length: want.bytes, sums: sums}
	c.mu.Lock()
	c.opened[key] = p
	c.mu.Unlock()
	return p, nil
}

func readFull(f world.File, b []byte, at int64) error {
	if n, err := f.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("%w: %d of %d bytes at %d: %w", errDamaged, n, len(b), at, err)
	}
	return nil
}
