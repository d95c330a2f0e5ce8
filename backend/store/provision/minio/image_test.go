package minio

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoImageNamesTheWaysOn(t *testing.T) {
	e := engine(t)
	empty := Source{NoBuild: true, Cache: t.TempDir()}
	if _, err := empty.binary(t.Context(), e.arch); !isNoImage(err) {
		t.Errorf("nothing there and no build: %v", err)
	}
	for _, s := range []Source{
		{Image: "bench.invalid/minio:latest"},
		{Image: "bench.invalid/minio:latest", Pull: true},
		{Image: "bench.invalid/minio@sha256:" + strings.Repeat("0", 64)},
	} {
		if _, err := e.Resolve(t.Context(), s); !isNoImage(err) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func isNoImage(err error) bool {
	var none *NoImageError
	return errors.As(err, &none) && strings.Contains(err.Error(), "--store embedded")
}

// TestCacheIsCheckedBeforeItIsUsed damages a cached binary.
func TestCacheIsCheckedBeforeItIsUsed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(binaryFile, "server")
	sum, err := checksum(filepath.Join(dir, binaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cached(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	write(recordFile, `{"module": "m", "version": "v1", "sha256": "`+sum+`", "go": "go1"}`)
	if b, err := cached(dir); err != nil || b.Path != filepath.Join(dir, binaryFile) || b.Version != "v1" {
		t.Errorf("%+v, %v", b, err)
	}
	write(binaryFile, "another")
	if _, err := cached(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another binary: %v", err)
	}
}
