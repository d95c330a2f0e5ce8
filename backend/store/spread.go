package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// MaxSpread is the most prefixes that WithSpread makes.
const MaxSpread = 256

// spreadFolders hold the data objects of a run, which are most of its objects: segments of changelogs, and bases. Metadata, the
// coordinator's log and savepoints are few, and are found by listing their folder.
func spreadFolders() [2]string { return [...]string{"log/", "base/"} }

type spread struct {
	in Bucket
	n  uint32
}

var _ Bucket = (*spread)(nil)

// WithSpread returns a bucket whose keys are those of b, but that the keys of data objects (log/..., base/...) have one of n prefixes
// in b, two hexadecimal digits that follow from the key: many stores limit requests by prefix. n is at most MaxSpread; below 2 it
// returns b. A listing that may contain data objects takes n requests at least and is held in memory. Close closes b.
func WithSpread(b Bucket, n int) Bucket {
	if n < 2 {
		return b
	}
	return &spread{in: b, n: uint32(min(n, MaxSpread))}
}

// spreadWord begins the line that tells how a run's keys are spread.
const spreadWord = "spread "

// SpreadLine is a line for an object with a fixed key, from which SpreadOf tells n; empty where keys are not spread.
func SpreadLine(n int) string {
	if n < 2 {
		return ""
	}
	return spreadWord + strconv.Itoa(n) + "\n"
}

// SpreadOf finds a SpreadLine in the text of an object; 0: there is none.
func SpreadOf(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		value, found := strings.CutPrefix(strings.TrimSpace(string(line)), spreadWord)
		if !found {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 2 || n > MaxSpread {
			return 0, fmt.Errorf("keys are spread over %q prefixes, not 2 to %d: %w", value, MaxSpread, ErrCorrupt)
		}
		return n, nil
	}
	return 0, nil
}

// place is the prefix number i.
func (*spread) place(i uint32) string { return fmt.Sprintf("%02x/", i) }

// full returns the key in the bucket below.
func (s *spread) full(key string) string {
	for _, f := range spreadFolders() {
		if strings.HasPrefix(key, f) {
			h := fnv.New32a()
			h.Write([]byte(key))
			return s.place(h.Sum32()%s.n) + key
		}
	}
	return key
}

// short returns the key of which full made k, and k itself where it made none.
func (s *spread) short(k string) string {
	if i := strings.IndexByte(k, '/'); i >= 0 && s.full(k[i+1:]) == k {
		return k[i+1:]
	}
	return k
}

func (s *spread) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	return s.in.Put(ctx, s.full(key), body, o)
}

func (s *spread) Get(ctx context.Context, key string) ([]byte, error) {
	return s.in.Get(ctx, s.full(key))
}

func (s *spread) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return s.in.GetRange(ctx, s.full(key), off, n)
}

func (s *spread) Stat(ctx context.Context, key string) (Attributes, error) {
	a, err := s.in.Stat(ctx, s.full(key))
	a.Key = s.short(a.Key)
	return a, err
}

// List implements Bucket.
func (s *spread) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	plain, spread := true, false
	for _, f := range spreadFolders() {
		if strings.HasPrefix(prefix, f) {
			plain, spread = false, true
		} else if strings.HasPrefix(f, prefix) {
			spread = true
		}
	}
	if !spread {
		return s.in.List(ctx, prefix, startAfter)
	}
	return func(yield func(Attributes, error) bool) {
		all, err := s.gather(ctx, prefix, startAfter, plain)
		if err != nil {
			yield(Attributes{}, err)
			return
		}
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// gather lists the prefixes one after the other, and with plain what has none, in the order of keys.
func (s *spread) gather(ctx context.Context, prefix, startAfter string, plain bool) (all []Attributes, _ error) {
	if plain {
		for a, err := range s.in.List(ctx, prefix, startAfter) {
			if err != nil {
				return nil, err
			}
			if s.short(a.Key) == a.Key {
				all = append(all, a)
			}
		}
	}
	for i := range s.n {
		at := s.place(i)
		for a, err := range s.in.List(ctx, at+prefix, at+startAfter) {
			if err != nil {
				return nil, err
			}
			if short := s.short(a.Key); short != a.Key {
				a.Key = short
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b Attributes) int { return cmp.Compare(a.Key, b.Key) })
	return all, nil
}

func (s *spread) Delete(ctx context.Context, keys []string) []Deleted {
	full := make([]string, len(keys))
	for i, key := range keys {
		full[i] = s.full(key)
	}
	out := s.in.Delete(renamed(ctx, keys, full), full)
	for i := range out {
		out[i].Key = keys[i]
	}
	return out
}

func (s *spread) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	all, err := s.in.Uploads(ctx, "")
	var out []Upload
	for _, u := range all {
		if u.Key = s.short(u.Key); strings.HasPrefix(u.Key, prefix) {
			out = append(out, u)
		}
	}
	slices.SortStableFunc(out, func(a, b Upload) int { return cmp.Compare(a.Key, b.Key) })
	return out, err
}

func (s *spread) AbortUpload(ctx context.Context, u Upload) error {
	u.Key = s.full(u.Key)
	return s.in.AbortUpload(ctx, u)
}

func (s *spread) Close() error { return s.in.Close() }
