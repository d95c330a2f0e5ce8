package file

import (
	"encoding/binary"
	"fmt"
	"strings"

	"statebench.dev/bench/backend/store"
)

// Format 1 of a file. All integers are little-endian, crc is CRC32C.
//
//	file   := magic "DSTLWAL1" | record{} | [ seal ]
//	record := u32 crc of the rest of the head and the key | u32 crc of the body | u64 length of the body | u16 length of the key
//	          | u8 kind | u8 0 | key | body
//	seal   := u32 crc of the length | u64 length of the file before it | "SEAL"
//
// A record of kind 1 puts a segment, one of kind 2, without a body, erases those of its key before it, in this file and in older
// ones. Files are 00000001.wal and so on. One that does not end with a seal may end in the middle of a record, which counts as not
// written: its writer crashed, or gave the file up after a failure. In one with a seal that is damage, and so it is where a record that
// can be read comes later, since nothing is written behind a cut one.
const (
	magic     = "DSTLWAL1"
	headSize  = 20
	kindPut   = 1
	kindErase = 2
	sealMagic = "SEAL"
	sealSize  = 16
	ext       = ".wal"
)

func fileName(n uint64) string { return fmt.Sprintf("%08d%s", n, ext) }

func appendHead(b []byte, kind byte, key string, size int64, crc uint32) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, crc)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, kind, 0)
	b = append(b, key...)
	binary.LittleEndian.PutUint32(b[at:], store.CRC32C(b[at+4:]))
	return b
}

func appendSeal(b []byte, size int64) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	binary.LittleEndian.PutUint32(b[at:], store.CRC32C(b[at+4:]))
	return append(b, sealMagic...)
}

// sealed tells whether the last bytes of a file of the given size are its seal.
func sealed(tail []byte, size int64) bool {
	return len(tail) == sealSize && string(tail[12:]) == sealMagic &&
		binary.LittleEndian.Uint32(tail) == store.CRC32C(tail[4:12]) && int64(binary.LittleEndian.Uint64(tail[4:])) == size-sealSize
}

// load reads the directory.
func (v *Volume) load() error {
	names, err := v.disk.List("")
	if err != nil {
		return err
	}
	for _, name := range names {
		var n uint64
		if _, err := fmt.Sscanf(name, "%d"+ext, &n); err != nil || name != fileName(n) {
			continue // not ours
		}
		if err := v.loadFile(n, name); err != nil {
			return err
		}
	}
	return nil
}

// loadFile reads one file into the index. It is durable as far as it can be read: it was so before, or is synced now.
func (v *Volume) loadFile(number uint64, name string) error {
	handle, err := v.disk.Open(name)
	if err != nil {
		return err
	}
	f := &logFile{number: number, name: name, f: handle, named: true}
	v.files, v.last = append(v.files, f), number
	if f.size, err = handle.Size(); err != nil {
		return err
	}
	if err := v.disk.Sync(name); err != nil {
		return err
	}
	tail := make([]byte, min(sealSize, f.size))
	if _, err := handle.ReadAt(tail, f.size-int64(len(tail))); err != nil && len(tail) > 0 && f.size > 0 {
		return fmt.Errorf("read the end of %s: %w", name, err)
	}
	end, whole := f.size, sealed(tail, f.size)
	if whole {
		end -= sealSize
	}
	at, err := v.records(f, end)
	if err != nil || at == end {
		return err
	}
	if !whole {
		if whole, err = more(f, max(at+1, int64(len(magic))), end); err != nil {
			return err
		}
	}
	if !whole { // most likely a writer crashed
		v.cut = append(v.cut, fmt.Sprintf("%s from offset %d of %d", name, at, f.size))
		return nil
	}
	f.live++ // the file stays: what cannot be read of it may be needed
	if v.damage == nil {
		v.damage = fmt.Errorf("log volume: %s is damaged at offset %d of %d: %w", name, at, f.size, store.ErrCorrupt)
	}
	return nil // what can be read may be enough
}

// more tells whether a record begins at at or later.
func more(f *logFile, at, end int64) (bool, error) {
	b := make([]byte, min(chunk, max(0, end-at)))
	for ; end-at >= headSize; at += int64(len(b)) - headSize - store.MaxKey {
		b = b[:min(int64(len(b)), end-at)]
		if _, err := f.f.ReadAt(b, at); err != nil {
			return false, fmt.Errorf("read %s: %w", f.name, err)
		}
		for i := 0; i+headSize <= len(b); i++ {
			if kind := b[i+18]; b[i+19] != 0 || kind != kindPut && kind != kindErase {
				continue // spares most of the checksums
			}
			if _, _, ok := decodeHead(b[i:], f, at+int64(i), end); ok {
				return true, nil
			}
		}
		if at+int64(len(b)) == end {
			return false, nil
		}
	}
	return false, nil
}

// records reads records up to end and returns where the last whole one ends.
func (v *Volume) records(f *logFile, end int64) (int64, error) {
	head := make([]byte, headSize+store.MaxKey)
	if end < int64(len(magic)) {
		return 0, nil
	}
	if _, err := f.f.ReadAt(head[:len(magic)], 0); err != nil {
		return 0, fmt.Errorf("read %s: %w", f.name, err)
	}
	if string(head[:len(magic)]) != magic {
		if strings.HasPrefix(string(head[:len(magic)]), magic[:7]) {
			return 0, fmt.Errorf("%s is of an unknown version: %w", f.name, store.ErrCorrupt)
		}
		return 0, nil
	}
	at := int64(len(magic))
	for end-at >= headSize {
		b := head[:min(int64(len(head)), end-at)]
		if _, err := f.f.ReadAt(b, at); err != nil {
			return at, fmt.Errorf("read %s: %w", f.name, err)
		}
		r, next, ok := decodeHead(b, f, at, end)
		if !ok {
			return at, nil
		}
		if whole, err := v.bodyIs(f, r); err != nil || !whole && next == end {
			return at, err // damaged in the middle, it stays in the index, and whoever reads it is told
		}
		v.apply(r)
		at = next
	}
	return at, nil
}

// decodeHead reads a record's head at offset at of f.
func decodeHead(b []byte, f *logFile, at, end int64) (r record, next int64, ok bool) {
	size, n := int64(binary.LittleEndian.Uint64(b[8:])), int(binary.LittleEndian.Uint16(b[16:]))
	if headSize+n > len(b) || binary.LittleEndian.Uint32(b) != store.CRC32C(b[4:headSize+n]) {
		return r, 0, false
	}
	r = record{kind: b[18], key: string(b[headSize:][:n])}
	r.at = place{file: f, off: at + headSize + int64(n), size: size, crc: binary.LittleEndian.Uint32(b[4:])}
	next = r.at.off + size
	return r, next, size >= 0 && next <= end && (r.kind == kindPut || r.kind == kindErase)
}

// chunk is how much of a body is read at a time.
const chunk = 1 << 20

// bodyIs tells whether a record's body is what was written.
func (v *Volume) bodyIs(f *logFile, r record) (bool, error) {
	buf := make([]byte, min(chunk, r.at.size))
	crc := uint32(0)
	for done := int64(0); done < r.at.size; {
		b := buf[:min(int64(len(buf)), r.at.size-done)]
		if _, err := f.f.ReadAt(b, r.at.off+done); err != nil {
			return false, fmt.Errorf("read %s: %w", f.name, err)
		}
		crc = store.UpdateCRC32C(crc, b)
		done += int64(len(b))
	}
	return crc == r.at.crc, nil
}
