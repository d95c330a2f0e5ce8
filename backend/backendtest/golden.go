package backendtest

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// Undump reads the file of a golden object, as hex.Dump writes them.
func Undump(t testing.TB, name string) (b []byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if len(line) < 60 {
			continue
		}
		part, err := hex.DecodeString(strings.ReplaceAll(line[10:58], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, part...)
	}
	return b
}
