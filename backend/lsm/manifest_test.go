package lsm

import (
	"encoding/hex"
	"slices"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/keygroup"
)

// TestManifestStaysReadable: what each version wrote can be read, and what is written now is the same.
func TestManifestStaysReadable(t *testing.T) {
	const (
		before = "73626c736d000100020101" + "0005636f756e74" + "020200046c697374"
		now    = "73626c736d000200020101" + "0005636f756e74" + "0000000400056279746573" + "020200046c697374" + "000000000000"
		rest   = "00000001" + "0009" + "0000000000000007" + "0000000000000002" + "000000000000001e" + "00000000" + "00000000"
	)
	for text, schema := range map[string]backend.Schema{before: {}, now: {Serializer: "bytes", Version: 4}} {
		k := &keyed{rng: keygroup.Range{From: 8, To: 10}}
		specs := []backend.StateSpec{backend.Spec("count", backend.Value), backend.Spec("list", backend.List)}
		specs[0].Schema = schema
		s := &snapshot{k: k, specs: specs, positions: []uint64{0, 7}, counts: counts{elements: []int64{0, 2}, bytes: []int64{0, 30}}}
		b := s.encode()
		if got := hex.EncodeToString(b); got != text+rest {
			t.Errorf("written now %s, want %s", got, text+rest)
		}
		golden, err := hex.DecodeString(text + rest)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseManifest("golden", golden)
		if err != nil || !slices.Equal(m.states, specs) || len(m.groups) != 1 || m.groups[0] != (groupFigures{9, 7, 2, 30}) {
			t.Errorf("read %+v, %v", m, err)
		}
	}
}
