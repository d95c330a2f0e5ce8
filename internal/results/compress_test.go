package results_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/internal/results"
)

type numbered struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// compressed writes n lines and leaves the file open.
func compressed(t testing.TB, n int) (*results.Lines, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	l, err := results.CreateCompressed(path)
	must(t, err)
	for i := range n {
		must(t, l.Append(numbered{i, fmt.Sprintf("event %d of a run, which is much like the one before", i)}))
	}
	return l, path
}

func TestCompressedIsReadLikePlain(t *testing.T) {
	l, path := compressed(t, 20_000)
	must(t, l.Close())
	same, err := results.CreateLines(filepath.Join(t.TempDir(), "history.jsonl"))
	must(t, err)
	n := 0
	for v, err := range results.ReadLines[numbered](path) {
		must(t, err)
		if v.N != n {
			t.Fatalf("line %d holds %d", n, v.N)
		}
		must(t, same.Append(v))
		n++
	}
	must(t, same.Close())
	if n != 20_000 || same.Digest() != l.Digest() || l.Stored() > same.Stored()/4 {
		t.Errorf("%d lines, digests %s and %s, %d bytes of %d", n, l.Digest(), same.Digest(), l.Stored(), same.Stored())
	}
	if info, err := os.Stat(path + results.Compressed); err != nil || info.Size() != l.Stored() {
		t.Errorf("%v, %v", info, err)
	}
	must(t, os.WriteFile(path, nil, 0o644))
	if _, err := readAll[numbered](path); !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), "both plain and compressed") {
		t.Errorf("both: %v", err)
	}
}

// TestWhatWasFlushedSurvives: the program is killed, so the frame has no end.
func TestWhatWasFlushedSurvives(t *testing.T) {
	l, path := compressed(t, 1000)
	must(t, l.Flush())
	for i := range 50 { // never flushed
		must(t, l.Append(numbered{N: 1000 + i}))
	}
	got, err := readAll[numbered](path)
	if len(got) != 1000 || got[999].N != 999 || !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), results.Compressed+":1001") {
		t.Errorf("%d lines, %v", len(got), err)
	}
	must(t, l.Close())
	if got, err := readAll[numbered](path); len(got) != 1050 || err != nil {
		t.Errorf("closed: %d lines, %v", len(got), err)
	}
}

// TestCutAnywhere cuts a file of several flushes at each length: what comes back is a beginning, and the cut is noticed.
func TestCutAnywhere(t *testing.T) {
	l, path := compressed(t, 0)
	for i := range 30 {
		must(t, l.Append(numbered{N: i}))
		must(t, l.Flush())
	}
	must(t, l.Close())
	whole, err := os.ReadFile(path + results.Compressed)
	must(t, err)
	before := 0
	for n := range whole {
		must(t, os.WriteFile(path+results.Compressed, whole[:n], 0o644))
		got, err := readAll[numbered](path)
		if len(got) < before {
			t.Fatalf("cut at %d: %d lines, fewer than of a shorter piece", n, len(got))
		}
		before = len(got)
		for i, v := range got {
			if v.N != i {
				t.Fatalf("cut at %d: line %d holds %d", n, i, v.N)
			}
		}
		if n > 0 && !errors.Is(err, results.ErrDamaged) {
			t.Fatalf("cut at %d of %d: %d lines, %v", n, len(whole), len(got), err)
		}
	}
}

func TestHostileCompression(t *testing.T) {
	l, path := compressed(t, 2000)
	must(t, l.Close())
	whole, err := os.ReadFile(path + results.Compressed)
	must(t, err)
	for i := 0; i < len(whole); i += 7 {
		b := bytes.Clone(whole)
		b[i] ^= 0x55
		must(t, os.WriteFile(path+results.Compressed, b, 0o644))
		if got, err := readAll[numbered](path); err == nil && len(got) != 2000 || err != nil && !errors.Is(err, results.ErrDamaged) {
			t.Fatalf("byte %d: %d lines, %v", i, len(got), err)
		}
	}
	for _, b := range [][]byte{{}, []byte("{}\n"), []byte("\x28\xb5\x2f\xfd"), bytes.Repeat([]byte{0xff}, 100), append([]byte("\x28\xb5\x2f\xfd\x00\xf8"), make([]byte, 50)...)} {
		must(t, os.WriteFile(path+results.Compressed, b, 0o644))
		if got, err := readAll[numbered](path); len(got) > 0 || len(b) > 0 && !errors.Is(err, results.ErrDamaged) {
			t.Errorf("%q: %d lines, %v", b, len(got), err)
		}
	}
}

func BenchmarkCompressedAppend(b *testing.B) {
	l, _ := compressed(b, 0)
	v := numbered{Text: strings.Repeat("checkpoint-acked count-3 ", 8)}
	for b.Loop() {
		v.N++
		must(b, l.Append(v))
	}
	must(b, l.Close())
	b.ReportMetric(float64(l.Stored())/float64(l.Len()), "B/line")
}
