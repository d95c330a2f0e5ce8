package dirstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/dirstore"
	"statebench.dev/bench/backend/store/storetest"
)

func open(t *testing.T, folder string) *dirstore.Bucket {
	t.Helper()
	b, err := dirstore.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Bucket { return open(t, t.TempDir()) }, storetest.Options{})
}

func TestObjectsOutliveTheBucket(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not", "there", "yet")
	b := open(t, folder)
	if err := b.Put(t.Context(), "a/b", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, folder)
	defer b.Close()
	if got, err := b.Get(t.Context(), "a/b"); err != nil || string(got) != "x" {
		t.Errorf("Get = %q, %v", got, err)
	}
}

func TestNothingLeavesTheRoot(t *testing.T) {
	outside := t.TempDir()
	b := open(t, filepath.Join(outside, "root"))
	defer b.Close()
	for _, key := range storetest.OddKeys() {
		if err := b.Put(t.Context(), key, nil, store.PutOptions{}); err != nil {
			t.Fatalf("Put(%.80q): %v", key, err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(outside, "root", "objects", "link.d")); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "link/x", nil, store.PutOptions{}); err == nil {
		t.Error("Put went through a symbolic link that leads out")
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the root: %v, %v", entries, err)
	}
}

func TestEmptyFoldersAndTempsGo(t *testing.T) {
	folder := t.TempDir()
	b := open(t, folder)
	for _, key := range []string{"a/b/c/d", "a/e"} {
		if err := b.Put(t.Context(), key, nil, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(t.Context(), "a/e", nil, store.PutOptions{IfNotExist: true}); !errors.Is(err, store.ErrPrecondition) {
		t.Fatal(err)
	}
	b.Delete(t.Context(), []string{"a/b/c/d"})
	if got, _ := filepath.Glob(folder + "/objects/*/*"); len(got) != 1 || filepath.Base(got[0]) != "e.o" {
		t.Errorf("in a/: %v", got)
	}
	b.Delete(t.Context(), []string{"a/e"})
	if got, _ := filepath.Glob(folder + "/objects/*"); len(got) != 0 {
		t.Errorf("objects: %v", got)
	}
	if got, _ := filepath.Glob(folder + "/tmp/*"); len(got) != 0 {
		t.Errorf("tmp: %v", got)
	}
	stale, fresh := filepath.Join(folder, "tmp", "stale"), filepath.Join(folder, "tmp", "fresh")
	for _, name := range []string{stale, fresh} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(stale, time.Time{}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	open(t, folder).Close()
	if got, _ := filepath.Glob(folder + "/tmp/*"); len(got) != 1 || got[0] != fresh {
		t.Errorf("tmp after the next Open: %v, want the fresh one", got)
	}
}

func TestOpenRefusesAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := dirstore.Open(file); err == nil {
		t.Error("Open of a file succeeded")
	}
}
