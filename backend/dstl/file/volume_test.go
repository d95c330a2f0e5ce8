package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/dstl/file"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// inWorld runs f in a simulated world with a disk in memory.
func inWorld(t *testing.T, f func(ctx context.Context, e dstl.StorageEnv) error) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 1})
	if err := w.Run(func(ctx context.Context) error {
		return f(ctx, dstl.StorageEnv{World: w, Disk: world.NewMemDisk()})
	}); err != nil {
		t.Error(err)
	}
}

// putAll puts n segments at the same time.
func putAll(ctx context.Context, w world.World, v *file.Volume, from, n int) error {
	g := world.NewGroup(w)
	for i := range n {
		g.Go(ctx, "put", func(ctx context.Context) error {
			return v.Put(ctx, fmt.Sprintf("log/1/worker-%d/%08d.seg", i%4, from+i), bytes.Repeat([]byte{byte(i)}, 1000))
		})
	}
	return g.Wait(ctx)
}

// TestPutsShareASync: those that come while a sync is under way are made durable by the next one, together.
func TestPutsShareASync(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		v, err := file.Open(ctx, e, file.Options{})
		if err != nil {
			return err
		}
		before := e.World.Now()
		if err := putAll(ctx, e.World, v, 0, 100); err != nil {
			return err
		}
		if s, took := v.Stats(), e.World.Now()-before; s.Puts != 100 || s.Syncs > 2 || took > 2*1e6 {
			t.Errorf("%d puts took %d syncs and %v, want at most 2 of 1 ms each", s.Puts, s.Syncs, took)
		}
		return v.Close(ctx)
	})
}

// TestFilesGoWithTheirSegments: rotated files whose segments are deleted are, too, and one that is needed stays.
func TestFilesGoWithTheirSegments(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		v, err := file.Open(ctx, e, file.Options{Rotate: 10_000})
		if err != nil {
			return err
		}
		for i := range 20 {
			if err := putAll(ctx, e.World, v, 10*i, 10); err != nil {
				return err
			}
		}
		full := v.Stats()
		if full.Files < 18 || full.Bytes < 200_000 {
			t.Errorf("%d files of %d bytes, want about 20 of 200,000", full.Files, full.Bytes)
		}
		var keys []string
		for a, err := range v.List(ctx, "log/", "") {
			if err != nil {
				return err
			}
			keys = append(keys, a.Key)
		}
		kept := keys[len(keys)-1]
		for _, d := range v.Delete(ctx, keys[:len(keys)-1]) {
			if d.Err != nil {
				return d.Err
			}
		}
		if err := putAll(ctx, e.World, v, 1000, 10); err != nil { // the round after which files go
			return err
		}
		if s := v.Stats(); s.Files > 5 {
			t.Errorf("%d files are left for 11 segments", s.Files)
		}
		if b, err := v.GetRange(ctx, kept, 0, 1000); err != nil || len(b) != 1000 {
			t.Errorf("the segment that was kept: %d bytes, %v", len(b), err)
		}
		return v.Close(ctx)
	})
}

// goldenSegments is what testdata/v1 holds: two files, the first one sealed, the second one cut in a record.
func goldenSegments() map[string][]byte {
	return map[string][]byte{
		"log/1/worker-0/00000001.seg": bytes.Repeat([]byte("abc"), 50),
		"log/1/worker-1/00000000.seg": {},
	}
}

// TestGoldenFilesStayReadable.
func TestGoldenFilesStayReadable(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		names, err := filepath.Glob("testdata/v1/*.wal")
		if err != nil || len(names) != 2 {
			t.Fatalf("golden files %v, %v", names, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := e.Disk.WriteFile(filepath.Base(name), b); err != nil {
				return err
			}
		}
		v, err := file.Open(ctx, e, file.Options{})
		if err != nil {
			return err
		}
		n := 0
		for a, err := range v.List(ctx, "log/", "") {
			if err != nil {
				return err
			}
			n++
			b, err := v.GetRange(ctx, a.Key, 0, a.Size)
			if want, known := goldenSegments()[a.Key]; err != nil || !known || !bytes.Equal(b, want) {
				t.Errorf("%s: %d bytes, %v", a.Key, len(b), err)
			}
		}
		if n != len(goldenSegments()) {
			t.Errorf("%d segments, want %d", n, len(goldenSegments()))
		}
		return v.Close(ctx)
	})
}

// TestDamageOfAFileThatWasEnded is told, not taken for the end of what was written.
func TestDamageOfAFileThatWasEnded(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		v, err := file.Open(ctx, e, file.Options{Rotate: 3000})
		if err != nil {
			return err
		}
		if err := putAll(ctx, e.World, v, 0, 6); err != nil {
			return err
		}
		if err := v.Close(ctx); err != nil {
			return err
		}
		b, err := e.Disk.ReadFile("00000001.wal")
		if err != nil {
			return err
		}
		for at := range b {
			bad := bytes.Clone(b)
			bad[at] ^= 0x10
			if err := e.Disk.WriteFile("00000001.wal", bad); err != nil {
				return err
			}
			if err := look(ctx, e, at); err != nil {
				t.Errorf("byte %d of %d flipped: %v", at, len(b), err)
			}
		}
		return nil
	})
}

// look wants each of the six segments whole, or an error that is store.ErrCorrupt; only damage of the seal, which the last 16 bytes
// of the file are, costs nothing.
func look(ctx context.Context, e dstl.StorageEnv, at int) error {
	v, err := file.Open(ctx, e, file.Options{})
	if err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			return nil
		}
		return err
	}
	for i := range 6 {
		b, err := v.GetRange(ctx, fmt.Sprintf("log/1/worker-%d/%08d.seg", i%4, i), 0, 1000)
		switch {
		case err != nil && !errors.Is(err, store.ErrCorrupt):
			return err
		case err == nil && !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 1000)):
			return fmt.Errorf("segment %d has other content", i)
		}
	}
	return v.Close(ctx)
}

// TestDamageOfAFileThatWasNotEnded: a bad record with a good one behind it is damage and told with file and offset. What is at the
// end may have been cut; who misses it is told where.
func TestDamageOfAFileThatWasNotEnded(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		v, err := file.Open(ctx, e, file.Options{})
		if err != nil {
			return err
		}
		for i := range 3 {
			if err := v.Put(ctx, segmentName(i), bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
				return err
			}
		}
		if err := v.Close(ctx); err != nil {
			return err
		}
		const name = "00000001.wal"
		b, err := e.Disk.ReadFile(name)
		if err != nil {
			return err
		}
		record := (len(b) - 8) / 3 // behind the magic
		for at := range b {
			bad := bytes.Clone(b)
			bad[at] ^= 0x10
			if err := e.Disk.WriteFile(name, bad); err != nil {
				return err
			}
			if err := lookUnsealed(ctx, e, at >= 8+2*record); err != nil {
				t.Errorf("byte %d of %d flipped: %v", at, len(b), err)
			}
		}
		for size := range len(b) { // a cut end is none
			if err := e.Disk.WriteFile(name, b[:size]); err != nil {
				return err
			}
			if err := cutAt(ctx, e, size, record); err != nil {
				t.Errorf("cut to %d of %d bytes: %v", size, len(b), err)
			}
		}
		return nil
	})
}

func segmentName(i int) string { return fmt.Sprintf("log/1/worker-0/%08d.seg", i) }

// lookUnsealed wants one of three segments to be an error that names the file, and no other content: store.ErrCorrupt, or for the last
// one store.ErrNotExist too.
func lookUnsealed(ctx context.Context, e dstl.StorageEnv, last bool) error {
	v, err := file.Open(ctx, e, file.Options{})
	if err != nil {
		if errors.Is(err, store.ErrCorrupt) && strings.Contains(err.Error(), ".wal") {
			return nil
		}
		return err
	}
	told := false
	for i := range 3 {
		b, err := v.GetRange(ctx, segmentName(i), 0, 100)
		switch {
		case err == nil && bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 100)):
		case err == nil:
			return fmt.Errorf("segment %d has other content", i)
		case !strings.Contains(err.Error(), "00000001.wal") || !strings.Contains(err.Error(), "offset"):
			return fmt.Errorf("it does not say where: %w", err)
		case errors.Is(err, store.ErrCorrupt) || i == 2 && last && errors.Is(err, store.ErrNotExist):
			told = true
		default:
			return err
		}
	}
	if !told {
		return errors.New("nothing is missed")
	}
	return v.Close(ctx)
}

// cutAt wants what is whole before the cut, and what is behind it not to be there rather than damaged.
func cutAt(ctx context.Context, e dstl.StorageEnv, size, record int) error {
	v, err := file.Open(ctx, e, file.Options{})
	if err != nil {
		return err
	}
	for i := range 3 {
		_, err := v.GetRange(ctx, segmentName(i), 0, 100)
		if whole := size >= 8+(i+1)*record; whole && err != nil || !whole && !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return v.Close(ctx)
}

// TestDamagedFilesStay: nobody can tell that nothing in them is needed, and they are what a report is about.
func TestDamagedFilesStay(t *testing.T) {
	inWorld(t, func(ctx context.Context, e dstl.StorageEnv) error {
		v, err := file.Open(ctx, e, file.Options{})
		if err != nil {
			return err
		}
		if err := putAll(ctx, e.World, v, 0, 4); err != nil {
			return err
		}
		if err := v.Close(ctx); err != nil {
			return err
		}
		const name = "00000001.wal"
		b, err := e.Disk.ReadFile(name)
		if err != nil {
			return err
		}
		b[8+3]++ // in the head of the first record
		if err := e.Disk.WriteFile(name, b); err != nil {
			return err
		}
		for range 2 {
			if v, err = file.Open(ctx, e, file.Options{}); err != nil {
				return err
			}
			if err := putAll(ctx, e.World, v, 100, 1); err != nil { // the round after which files go
				return err
			}
			if _, err := v.Stat(ctx, "log/1/worker-1/00000001.seg"); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), name+" is damaged at offset 8 of") {
				t.Errorf("a segment of the damaged file: %v", err)
			}
			if err := v.Close(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
