package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Stored is an invocation that lies in a results folder.
type Stored struct {
	// Dir is where it lies, Scenario the folder above it.
	Dir      Dir
	Scenario string
	// Manifest is its description; the zero value where Problem is set.
	Manifest Manifest
	// Problem is why its manifest could not be read: a run that is under way or was cut off, files of another version, damage.
	Problem error
	// Bytes are those of all its files, Changed is when the newest of them was written.
	Bytes   int64
	Changed time.Time
}

// Stock lists the invocations under a results folder, the newest first, those of one scenario where it is not empty. A folder that does
// not look like one of an invocation, <scenario>/<utc>-<seed>, is passed over: it is somebody else's. A folder out that does not exist is
// an error that wraps fs.ErrNotExist.
func Stock(out, scenario string) ([]Stored, error) {
	scenarios, err := os.ReadDir(out)
	if err != nil {
		return nil, fmt.Errorf("list results: %w", err)
	}
	var all []Stored
	for _, s := range scenarios {
		if !s.IsDir() || scenario != "" && s.Name() != scenario {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(out, s.Name()))
		if err != nil {
			return nil, fmt.Errorf("list results: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() || !invocationName(e.Name()) {
				continue
			}
			x := Stored{Dir: Dir(filepath.Join(out, s.Name(), e.Name())), Scenario: s.Name()}
			_, x.Manifest, _, x.Problem = Open(string(x.Dir))
			if x.Problem != nil {
				x.Manifest = Manifest{}
			}
			if err := x.measure(); err != nil {
				return nil, fmt.Errorf("list results: %w", err)
			}
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b Stored) int {
		return cmp.Or(strings.Compare(b.Dir.name(), a.Dir.name()), strings.Compare(string(a.Dir), string(b.Dir)))
	})
	return all, nil
}

// invocationName tells whether a folder is named as Create names them.
func invocationName(name string) bool {
	at, rest, ok := strings.Cut(name, "-")
	if _, err := time.Parse("20060102T150405Z", at); err != nil || !ok {
		return false
	}
	return strings.Trim(rest, "0123456789.") == "" && rest != ""
}

func (d Dir) name() string { return filepath.Base(string(d)) }

// measure adds the files up. One that vanishes meanwhile does not count.
func (x *Stored) measure() error {
	return filepath.WalkDir(string(x.Dir), func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			x.Bytes += info.Size()
		}
		if info.ModTime().After(x.Changed) {
			x.Changed = info.ModTime()
		}
		return nil
	})
}

// Remove deletes the invocation, and the folder of its scenario once that is empty. The manifest goes first: what is left after a
// failure is listed as an invocation that cannot be read, never as a whole one.
func (x *Stored) Remove() error {
	if err := os.Remove(x.Dir.Path(ManifestFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove results: %w", err)
	}
	if err := os.RemoveAll(string(x.Dir)); err != nil {
		return fmt.Errorf("remove results: %w", err)
	}
	_ = os.Remove(filepath.Dir(string(x.Dir))) // fails where others lie there
	return nil
}
