package localcopy_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// fullDisk is a disk that takes so many bytes of files that are written piece by piece, and then no more.
type fullDisk struct {
	world.Disk
	left int
}

var errFull = errors.New("no space left")

func (d *fullDisk) Create(name string) (world.File, error) {
	f, err := d.Disk.Create(name)
	return &fullFile{f, d}, err
}

type fullFile struct {
	world.File
	d *fullDisk
}

func (f *fullFile) Write(b []byte) (int, error) {
	n := min(len(b), f.d.left)
	f.d.left -= n
	if _, err := f.File.Write(b[:n]); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestFullDiskFailsNoUpload: wherever the disk is full in the middle of a copy, the checkpoint completes, what is left of the copy goes, it
// is told once, and the restore reads those objects from the store.
func TestFullDiskFailsNoUpload(t *testing.T) {
	with(t, func(t *testing.T, r *rig) {
		for left := 0; left < 30_000; left += 3_000 {
			r.disk = &fullDisk{world.NewMemDisk(), left}
			r.open(all)
			r.put(1, 300)
			h := r.checkpoint()
			notes := 0
			for _, e := range r.worker.Events() {
				if e.Kind == history.Note && strings.Contains(e.Text, errFull.Error()) {
					notes++
				}
			}
			whole := len(r.copies()) == len(keys(h))
			if whole == (notes > 0) || notes > 1 {
				t.Errorf("%d bytes of room: %d copies of %d objects, %d notes", left, len(r.copies()), len(keys(h)), notes)
			}
			r.crash()
			r.open(all, h)
			if (len(r.gets) == 0) != whole {
				t.Errorf("%d bytes of room: read from the store: %v", left, r.gets)
			}
			r.has(1, 300)
			r.close()
		}
	})
}

// TestCrashInTheMiddleOfACopy: a worker that dies while it makes a copy, before or after its end, leaves nothing that is mistaken for one.
func TestCrashInTheMiddleOfACopy(t *testing.T) {
	for _, point := range []string{failpoint.CheckpointLocalCopyBegin, failpoint.CheckpointLocalCopyEnd, "write"} {
		with(t, func(t *testing.T, r *rig) {
			r.open(all)
			r.put(1, 300)
			h := r.checkpoint()
			r.crash()
			r.open(all, h)
			r.put(2, 300)
			domain := r.worker.Domain
			if point == "write" {
				r.disk = &dyingDisk{r.disk, domain}
				r.worker.Env.Disk = r.disk
				r.close()
				r.open(all, h)
				r.disk.(*dyingDisk).domain = r.worker.Domain
				r.put(2, 300)
			} else {
				_, err := r.worker.Env.Failpoints.Arm(point, failpoint.When{}, func(context.Context, failpoint.Hit) error {
					domain.Kill()
					return nil
				})
				r.ok(err)
			}
			died := world.NewGroup(r.w)
			died.Go(r.worker.Ctx, "persist", func(context.Context) error {
				_, _, err := r.persist()
				return err
			})
			if err := died.Wait(r.ctx); !errors.Is(err, world.ErrKilled) {
				t.Fatalf("%s: the worker did not die: %v", point, err)
			}
			if d, ok := r.disk.(*dyingDisk); ok {
				d.domain = nil
			}
			r.crash()
			r.open(all, h)
			if len(r.gets) != 0 {
				t.Errorf("%s: read from the store: %v", point, r.gets)
			}
			for _, key := range r.copies() {
				if !slices.Contains(keys(h), key) {
					t.Errorf("%s: the copy of %s is left", point, key)
				}
			}
			r.has(1, 300)
			r.close()
		})
	}
}

// dyingDisk kills a domain in the middle of the first file that is written.
type dyingDisk struct {
	world.Disk
	domain *world.Domain
}

func (d *dyingDisk) Create(name string) (world.File, error) {
	f, err := d.Disk.Create(name)
	return &dyingFile{f, d}, err
}

type dyingFile struct {
	world.File
	d *dyingDisk
}

func (f *dyingFile) Write(b []byte) (int, error) {
	if f.d.domain != nil {
		n, err := f.File.Write(b[:len(b)/2])
		f.d.domain.Kill()
		return n, errors.Join(err, fs.ErrClosed)
	}
	return f.File.Write(b)
}
