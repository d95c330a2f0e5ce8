package dstl

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

var update = flag.Bool("update", false, "write golden files")

// goldenSets are two change sets with every kind of change and a block that compresses.
func goldenSets() (sets []*set, want elements) {
	want = elements{}
	for seq := range uint64(2) {
		c := &changeSet{}
		c.reset(0)
		add := func(op Op, s backend.StateID, g keygroup.ID, key string, pos uint64, value string) {
			c.add(op, backend.Addr{State: s, Group: g, Key: []byte(key)}, pos, []byte(value))
			want.apply(op, s, g, []byte(key), pos, []byte(value))
		}
		add(OpPut, 0, 5, "first", 0, "value one")
		add(OpPut, 0, 5, "second", 0, strings.Repeat("compressible ", 40))
		add(OpAppend, 1, 7, "list", 10+seq, "element")
		add(OpPut, 2, 4, "map/a", 0, "")
		add(OpDeletePrefix, 2, 4, "map/", 0, "")
		add(OpPut, 2, 4, "map/b", 0, "kept")
		add(OpDelete, 0, 5, "first", 0, "")
		sets = append(sets, &set{seq: 3 + seq, changes: c})
	}
	return sets, want
}

var goldenGroups = keygroup.Range{From: 4, To: 9}

// TestGoldenSegmentStaysReadable reads segments written by the first version of the format, without and with schemas of states; new
// segments must be the same.
func TestGoldenSegmentStaysReadable(t *testing.T) {
	tryGolden(t, "segment-v1.seg", backend.Schema{})
	tryGolden(t, "segment-v1-schemas.seg", backend.Schema{Serializer: "element", Version: 300})
}

func tryGolden(t *testing.T, name string, schema backend.Schema) {
	t.Helper()
	sets, want := goldenSets()
	_, _, object := frameSchema(sets, goldenGroups, 256, schema)
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, object, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, object) {
		t.Errorf("format changed without a new version: got %d bytes, want %d", len(object), len(golden))
	}
	sections, err := DecodeObject(golden)
	if err != nil || len(sections) != 1 {
		t.Fatalf("sections: %v, %v", sections, err)
	}
	s := sections[0]
	if s.Log != "1/count-0" || s.From != 3 || s.To != 5 || s.Groups != goldenGroups {
		t.Errorf("section is %+v", s)
	}
	index, err := decodeSection(golden[s.Offset:s.Offset+s.Length], s.Length)
	if err != nil || len(index.states) != 3 || index.states[1].Spec.Schema != schema || index.states[2].Spec.Name != "c" {
		t.Errorf("states are %+v, %v", index.states, err)
	}
	got, err := replayAll(golden[s.Offset:s.Offset+s.Length], goldenGroups)
	if err != nil || !got.equal(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestObjectWithSeveralSections(t *testing.T) {
	f := framer{blockSize: 64}
	f.begin(nil, 0)
	for i := range 3 {
		sets, _ := goldenSets()
		f.section(sectionOf{log: []string{"a", "b", "c"}[i], groups: goldenGroups}, sets[:1+i%2], make([]int64, 2))
	}
	object := f.end()
	sections, err := DecodeObject(object)
	if err != nil || len(sections) != 3 {
		t.Fatalf("got %d sections, %v", len(sections), err)
	}
	for _, s := range sections {
		if _, err := replayAll(object[s.Offset:s.Offset+s.Length], goldenGroups); err != nil {
			t.Errorf("section of %s: %v", s.Log, err)
		}
	}
}

// FuzzDecode damages a segment. Decoding must either fail with store.ErrCorrupt or give what was written.
func FuzzDecode(f *testing.F) {
	sets, want := goldenSets()
	section, _, object := frameSection(sets, goldenGroups, 256)
	f.Add([]byte{}, uint16(0), uint16(0), byte(1))
	f.Add(section, uint16(3), uint16(10), byte(0x80))
	f.Add(object, uint16(40), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, raw []byte, at, cut uint16, flip byte) {
		for _, b := range [][]byte{raw, damage(section, at, cut, flip)} {
			got, err := replayAll(b, goldenGroups)
			switch {
			case err != nil && !errors.Is(err, store.ErrCorrupt):
				t.Errorf("error of another kind: %v", err)
			case err == nil && !bytes.Equal(b, raw) && !got.equal(want):
				t.Errorf("wrong data without an error: %v", got)
			}
		}
		for _, b := range [][]byte{raw, damage(object, at, cut, flip)} {
			if _, err := DecodeObject(b); err != nil && !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("error of another kind: %v", err)
			}
		}
	})
}

// damage cuts and flips b; flip 0 leaves the byte as it is.
func damage(b []byte, at, cut uint16, flip byte) []byte {
	b = bytes.Clone(b)
	b = b[:len(b)-int(cut)%(len(b)+1)]
	if len(b) > 0 {
		b[int(at)%len(b)] ^= flip
	}
	return b
}

func TestEveryFlippedBitAndCutIsFound(t *testing.T) {
	sets, want := goldenSets()
	section, _, object := frameSection(sets, goldenGroups, 256)
	for i := range section {
		for bit := range 8 {
			b := bytes.Clone(section)
			b[i] ^= 1 << bit
			if got, err := replayAll(b, goldenGroups); err == nil {
				t.Fatalf("bit %d of byte %d flipped without an error, data right: %v", bit, i, got.equal(want))
			}
		}
		if _, err := replayAll(section[:i], goldenGroups); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
	for i := range object {
		if _, err := DecodeObject(object[:i]); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("object cut to %d bytes: %v", i, err)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("zero value: %v", err)
	}
	err := Options{Preemptive: -1, BatchDelay: -1, BlockSize: maxBlock + 1}.Validate()
	for _, part := range []string{"preemptive", "batch delay", "block size"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
}
