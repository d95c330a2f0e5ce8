package scrub_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scrub"
)

// TestFormatsCheckEveryByte: each format finds a changed byte and a cut by itself, wherever it is, and never panics. An lsm
// manifest has its checksum in the reference, so that its format finds cuts only.
func TestFormatsCheckEveryByte(t *testing.T) {
	seen := map[string]bool{}
	for _, arm := range armNames() {
		objects := left(t, arm)
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			for _, f := range catalog.Formats() {
				if strings.HasSuffix(key, f.Ext) && strings.HasPrefix(string(objects[key]), f.Magic) && len(objects[key]) < 5000 && !seen[f.Name] {
					seen[f.Name] = true
					everyByte(t, f, key, objects[key])
				}
			}
		}
	}
	if len(seen) != len(catalog.Formats()) {
		t.Errorf("only %v were tried", seen)
	}
}

func everyByte(t *testing.T, f scrub.Format, key string, body []byte) {
	t.Helper()
	verify := func(b []byte) error {
		return f.Verify(scrub.Object{Key: key, Size: int64(len(b)), ReaderAt: bytes.NewReader(b)})
	}
	if err := verify(body); err != nil {
		t.Errorf("%s %s: %v", f.Name, key, err)
	}
	step := 1
	if testing.Short() { // with the race detector, in which this takes ten times as long
		step = 17
	}
	for i := 0; i < len(body); i += step {
		if err := verify(body[:i]); err == nil {
			t.Errorf("%s %s is cut to %d of %d bytes, and whole", f.Name, key, i, len(body))
		}
		if err := verify(flipped(body, i)); err == nil && f.Name != "lsm manifest" {
			t.Errorf("%s %s has byte %d changed, and is whole", f.Name, key, i)
		}
	}
}
