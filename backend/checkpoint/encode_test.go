package checkpoint

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

var update = flag.Bool("update", false, "rewrite the golden file of the newest version")

func sample() *Metadata {
	seg := func(off, n int64, from, to uint64) backend.ObjectRef {
		return backend.ObjectRef{Key: "log/3/worker-1/7.seg", Bytes: 4096, CRC32C: 0xdeadbeef, Offset: off, Length: n,
			Groups: keygroup.Range{From: 0, To: 64}, Log: "count-0/3", From: from, To: to}
	}
	return &Metadata{
		ID: 42, Term: 2, Attempt: 3, TriggeredAt: 1500 * time.Millisecond, Parallelism: 2, MaxParallelism: 128,
		Subtasks: []SubtaskState{
			{Operator: "source", Index: 0, Positions: []Position{{Partition: 0, Next: 1000}, {Partition: 2, Next: 998}}},
			{Operator: "source", Index: 1, Positions: []Position{{Partition: 1, Next: 1003}}, Parts: [][]byte{{1, 2, 3}, {0}}},
			{Operator: "count", Index: 0, Keyed: &backend.StateHandle{Backend: "heap", Operator: "count", Range: keygroup.Range{From: 0, To: 64},
				Checkpoint: 42, Materialization: 5,
				Base:  []backend.ObjectRef{{Key: "base/3/count-0/5", Bytes: 1 << 20, CRC32C: 7, Length: 1 << 20, Groups: keygroup.Range{From: 0, To: 64}}},
				Delta: []backend.ObjectRef{seg(0, 100, 11, 14), seg(100, 20, 14, 15)}}},
			{Operator: "count", Index: 1, Keyed: &backend.StateHandle{Backend: "heap", Operator: "count", Range: keygroup.Range{From: 64, To: 128}, Checkpoint: 42}},
			{Operator: "out", Index: 0, Transactions: []string{"out-0/3/41", "out-0/3/42"}},
			{Operator: "out", Index: 1, Transactions: []string{"out-1/3/42"}},
		},
	}
}

func TestMetadataOfAnyVersionIsReadable(t *testing.T) {
	newest := filepath.Join("testdata", fmt.Sprintf("v%d.hex", Version))
	if *update {
		if err := os.WriteFile(newest, []byte(hex.EncodeToString(Encode(sample()))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for v := 1; v <= Version; v++ {
		text, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("v%d.hex", v)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(string(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, sample()) {
			t.Errorf("version %d: %v\n got %+v\nwant %+v", v, err, got, sample())
		}
		if v == Version && string(Encode(sample())) != string(b) {
			t.Errorf("Encode does not write what is in %s; a change of the format needs a new version", newest)
		}
	}
}

// sealed1 is what version 1 wrote.
func sealed1(m *Metadata) []byte {
	j, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return seal(append(make([]byte, headerSize), j...), 1)
}

func TestDecodeRefusesDamage(t *testing.T) {
	b := Encode(sample())
	for i := range b {
		for _, bit := range []byte{1, 0x80} {
			damaged := append([]byte{}, b...)
			damaged[i] ^= bit
			if _, err := Decode(damaged); !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("byte %d changed: error %v", i, err)
			}
		}
		if _, err := Decode(b[:i]); !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("cut at %d: error %v", i, err)
		}
	}
	if _, err := Decode(seal(make([]byte, headerSize), Version+1)); !errors.Is(err, ErrVersion) {
		t.Errorf("newer version: error %v", err)
	}
}

// FuzzDecodePayload goes past the checksum: a payload of any content decodes or is an error, and what decodes encodes again.
func FuzzDecodePayload(f *testing.F) {
	b := Encode(sample())
	f.Add(b[headerSize : len(b)-tailSize])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := Decode(seal(append(make([]byte, headerSize), payload...), Version))
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := Decode(Encode(m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("decoded %+v, again %+v, %v", m, again, err)
		}
	})
}

func TestKeys(t *testing.T) {
	if id, term, ok := ParseMetadataKey(MetadataKey(12, 3)); id != 12 || term != 3 || !ok {
		t.Errorf("metadata key reads as %d, %d, %v", id, term, ok)
	}
	for _, key := range []string{"", "meta/", "meta/1", "meta/1-", "meta/-1", "meta/01-1", "meta/1-1x", "log/1-1"} {
		if _, _, ok := ParseMetadataKey(key); ok {
			t.Errorf("%q is taken for a metadata key", key)
		}
	}
	if !(EntryKey(9) < EntryKey(10)) {
		t.Error("keys of entries do not sort as their numbers do")
	}
	if seq, ok := ParseEntryKey(EntryKey(77)); seq != 77 || !ok {
		t.Errorf("entry key reads as %d, %v", seq, ok)
	}
}

// large is a checkpoint of the given number of subtasks, each of which names all segments of its worker, as batching makes it.
func large(subtasks, workers, segments int) *Metadata {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := &Metadata{ID: 1, Term: 1, Attempt: 1, Parallelism: subtasks, MaxParallelism: 32768}
	for i := range subtasks {
		r := keygroup.RangeOf(i, subtasks, 32768)
		h := &backend.StateHandle{Backend: "heap", Operator: "count", Range: r, Checkpoint: 1, Materialization: 1}
		h.Base = append(h.Base, backend.ObjectRef{Key: fmt.Sprintf("base/1/count-%d/1", i), Bytes: 1 << 24, CRC32C: rnd.Uint32(), Length: 1 << 24, Groups: r})
		for s := range segments {
			h.Delta = append(h.Delta, backend.ObjectRef{Key: fmt.Sprintf("log/1/worker-%d/%d.seg", i%workers, s), Bytes: 1 << 20, CRC32C: uint32(s),
				Offset: rnd.Int64N(1 << 19), Length: 1 << 16, Groups: r, Log: fmt.Sprintf("count-%d", i), From: uint64(s), To: uint64(s + 1)})
		}
		m.Subtasks = append(m.Subtasks, SubtaskState{Operator: "count", Index: i, Keyed: h})
	}
	return m
}

func BenchmarkEncode(b *testing.B) {
	m := large(1000, 50, 20)
	b.ReportAllocs()
	var n int
	for b.Loop() {
		n = len(Encode(m))
	}
	b.ReportMetric(float64(n), "bytes")
	b.ReportMetric(float64(len(sealed1(m))), "bytes-v1")
}

func BenchmarkDecode(b *testing.B) {
	enc := Encode(large(1000, 50, 20))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(enc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeVersion1(b *testing.B) {
	enc := sealed1(large(1000, 50, 20))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(enc); err != nil {
			b.Fatal(err)
		}
	}
}

// TestB19UnknownVersionIsRefusedByName (docs/known-faults.md): the error says which version was found, which one is known, and what to do.
func TestB19UnknownVersionIsRefusedByName(t *testing.T) {
	b := store.NewMem()
	key := MetadataKey(7, 1)
	if err := b.Put(t.Context(), key, seal(make([]byte, headerSize), Version+1), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := Read(t.Context(), b, key)
	want := fmt.Sprintf("metadata of version %d, newest known is %d", Version+1, Version)
	if !errors.Is(err, ErrVersion) || errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a newer program") {
		t.Errorf("error %v", err)
	}
}
