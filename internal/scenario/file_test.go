package scenario

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOddFiles checks that what would block or never end is refused, and that an ordinary file is not.
func TestOddFiles(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.yaml")
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(good, []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, bytes.Repeat([]byte("#\n"), maxFile/2+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if src, err := ReadFile(good); err != nil || string(src) != "a: 1\n" {
		t.Errorf("ReadFile of an ordinary file = %q, %v", src, err)
	}
	if _, err := ReadFile(large); err == nil || !strings.Contains(err.Error(), "larger than 16 MiB") {
		t.Errorf("ReadFile of a file too large: %v", err)
	}
	f, err := openRegular(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Skipf("no socket to try: %v", err)
	}
	defer l.Close()
	if _, err := openRegular(socket); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("openRegular of a socket: %v", err)
	}
}

// TestTooLargeACountNamesTheUpperEnd checks that a number above a limit is not said to be below one.
func TestTooLargeACountNamesTheUpperEnd(t *testing.T) {
	_, problems := Load("x.yaml", []byte("phases:\n  - {name: a, records: 9223372036854775807}\n"), testTables(), Overrides{})
	if text := Format(problems); !strings.Contains(text, "records must be at most 9,007,199,254,740,992") {
		t.Errorf("got %s", text)
	}
}
