package dirstore

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"statebench.dev/bench/backend/store"
)

// A key becomes a path segment by segment: those before the last are folders, the last is a file. Each name carries a
// suffix that says what it is, so that an object may have the name of a folder, and empty, "." and ".." segments are
// names like any others. A segment of chunk bytes or more is cut: its first chunk bytes are a folder, the rest, which may be
// empty, is a segment again. Hence what a folder holds is exactly what begins with its part of the key, and walking names in
// the order of keys yields the whole listing in order.
const (
	chunk = 80 // at most 240 bytes once escaped; most file systems take 255

	suffixObject  = ".o"
	suffixSegment = ".d" // followed by a slash in the key
	suffixChunk   = ".c" // followed by the rest of the segment
)

const hexDigits = "0123456789abcdef"

// plain are the bytes that stand for themselves in names.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

func escape(b *strings.Builder, s string) {
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
}

// unescape reverses escape; false means that the name was not made by it.
func unescape(name string) (string, bool) {
	if !strings.Contains(name, "%") {
		return name, true
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		hi, lo := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return b.String(), true
}

// objectPath returns the slash-separated path of key's file under the root.
func objectPath(key string) string {
	var b strings.Builder
	b.WriteString(objectsDir)
	for {
		segment, rest, more := strings.Cut(key, "/")
		for len(segment) >= chunk {
			b.WriteByte('/')
			escape(&b, segment[:chunk])
			b.WriteString(suffixChunk)
			segment = segment[chunk:]
		}
		b.WriteByte('/')
		escape(&b, segment)
		if !more {
			b.WriteString(suffixObject)
			return b.String()
		}
		b.WriteString(suffixSegment)
		key = rest
	}
}

// node is one name in a folder.
type node struct {
	name string
	key  string // the key of an object, or what all keys in a folder begin with
	leaf bool
}

// walk is one listing under way.
type walk struct {
	b             *Bucket
	ctx           context.Context
	prefix, after string
	yield         func(store.Attributes, error) bool
}

// dir lists the folder whose keys begin with key; false means that the listing is over.
func (w *walk) dir(dir, key string) bool {
	if w.ctx.Err() != nil {
		w.yield(store.Attributes{}, context.Cause(w.ctx))
		return false
	}
	nodes, err := w.nodes(dir, key)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // emptied and removed since its parent was read
			return true
		}
		w.yield(store.Attributes{}, mapped("list", w.prefix, err))
		return false
	}
	for _, n := range nodes {
		name := path.Join(dir, n.name)
		if !n.leaf {
			if !w.dir(name, n.key) {
				return false
			}
			continue
		}
		info, err := w.b.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) { // deleted since
			continue
		}
		if err != nil {
			w.yield(store.Attributes{}, mapped("list", w.prefix, err))
			return false
		}
		if !w.yield(store.Attributes{Key: n.key, Size: info.Size(), Modified: info.ModTime()}, nil) {
			return false
		}
	}
	return true
}

// nodes reads a folder and returns what of it belongs to the listing, in the order of keys.
func (w *walk) nodes(dir, key string) ([]node, error) {
	f, err := w.b.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	nodes := make([]node, 0, len(names))
	for _, name := range names {
		if n, ok := parse(name, key); ok && w.wants(n) {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.key, b.key) })
	return nodes, nil
}

func (w *walk) wants(n node) bool {
	if n.leaf {
		return strings.HasPrefix(n.key, w.prefix) && n.key > w.after
	}
	return (strings.HasPrefix(n.key, w.prefix) || strings.HasPrefix(w.prefix, n.key)) &&
		(n.key > w.after || strings.HasPrefix(w.after, n.key))
}

// parse reads a name in the folder whose keys begin with key; false means that it is not one of ours.
func parse(name, key string) (node, bool) {
	if len(name) < 2 {
		return node{}, false
	}
	base, suffix := name[:len(name)-2], name[len(name)-2:]
	raw, ok := unescape(base)
	if !ok {
		return node{}, false
	}
	switch suffix {
	case suffixObject:
		return node{name: name, key: key + raw, leaf: true}, true
	case suffixSegment:
		return node{name: name, key: key + raw + "/"}, true
	case suffixChunk:
		return node{name: name, key: key + raw}, true
	}
	return node{}, false
}
