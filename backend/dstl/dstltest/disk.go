package dstltest

import (
	"errors"
	"sync"
	"testing"

	"statebench.dev/bench/internal/world"
)

// diskFor is a directory for a storage: in memory where the world is simulated.
func diskFor(t *testing.T, w world.World) world.Disk {
	if w.Simulated() {
		return world.NewMemDisk()
	}
	return world.NewFolderDisk(t.TempDir())
}

// errDisk is what a fault of the disk answers.
var errDisk = errors.New("disk fails")

// brokenDisk is a disk whose operations can be made to fail. It counts them.
type brokenDisk struct {
	world.Disk
	mu    *sync.Mutex // for the real world
	steps int         // changes of the disk so far
	// stopAt is the step before which the machine stops: it and all later ones have no effect; 0: never.
	stopAt int
	// cutWrite makes writes stop in the middle of what they are given, failSync makes syncs fail, shortRead makes reads stop early.
	cutWrite, failSync, shortRead bool
}

func newBrokenDisk(d world.Disk) *brokenDisk { return &brokenDisk{Disk: d, mu: &sync.Mutex{}} }

// step counts a change; an error means that it has no effect.
func (d *brokenDisk) step(fails bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps++
	if fails || d.stopAt > 0 && d.steps >= d.stopAt {
		return errDisk
	}
	return nil
}

// stopBefore sets stopAt; the storage's processes may be at work already.
func (d *brokenDisk) stopBefore(step int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopAt = step
}

// stopped tells whether the machine has.
func (d *brokenDisk) stopped() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stopAt > 0 && d.steps >= d.stopAt
}

func (d *brokenDisk) Create(name string) (world.File, error) {
	if err := d.step(false); err != nil {
		return nil, err
	}
	f, err := d.Disk.Create(name)
	return &brokenFile{File: f, d: d}, err
}

func (d *brokenDisk) Open(name string) (world.File, error) {
	f, err := d.Disk.Open(name)
	return &brokenFile{File: f, d: d}, err
}

func (d *brokenDisk) Remove(name string) error {
	if err := d.step(false); err != nil {
		return err
	}
	return d.Disk.Remove(name)
}

func (d *brokenDisk) Sync(name string) error {
	if err := d.step(d.failSync); err != nil {
		return err
	}
	return d.Disk.Sync(name)
}

// brokenFile is a file of a brokenDisk.
type brokenFile struct {
	world.File
	d *brokenDisk
}

func (f *brokenFile) Write(b []byte) (int, error) {
	if err := f.d.step(f.d.cutWrite); err != nil {
		n := 0
		if f.d.cutWrite {
			n, _ = f.File.Write(b[:len(b)/2]) // the error is the one that is made up
		}
		return n, err
	}
	return f.File.Write(b)
}

func (f *brokenFile) Sync() error {
	if err := f.d.step(f.d.failSync); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *brokenFile) ReadAt(b []byte, off int64) (int, error) {
	if f.d.shortRead && len(b) > 0 {
		n, err := f.File.ReadAt(b[:len(b)/2], off)
		return n, errors.Join(err, errDisk)
	}
	return f.File.ReadAt(b, off)
}
