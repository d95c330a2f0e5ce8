// Package results is the layout of an invocation and its runs on disk, written and read in one place.
//
// An invocation is a directory <out>/<scenario>/<utc>-<seed>/ with one directory runs/<arm>-<rep>/ a run; results/README.md
// documents every file, column and unit. Everything downstream (checks, reports) works from these files alone. Files are
// complete or absent: what is not appended while the run goes on is written beside and renamed.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Schema is the version of the layout.
const Schema = 1

// Names of files of an invocation.
const (
	ManifestFile = "manifest.json"
	ResolvedFile = "scenario.resolved.yaml"
	SummaryFile  = "summary.md"
	ReportFile   = "report.html"
	BenchFile    = "bench.txt"
	PlotsDir     = "plots"
	RunsDir      = "runs"
	LogFolder    = "log"   // of a run: its changelogs, where they are kept in files; gone at its end unless objects are kept
	DisksFolder  = "disks" // of a run in the real world: its workers' local disks; gone at its end
	InputsDir    = "inputs"
)

// Names of files of a run.
const (
	PlanFile        = "plan.json"
	HistoryFile     = "history.jsonl"
	ObjectsFile     = "objects.jsonl"
	ListingFile     = "listing.jsonl"
	StatesFile      = "states.jsonl"
	OutputFile      = "output.json"
	CoordLogFile    = "coordlog.jsonl"
	RefsFile        = "refs.jsonl"
	SeriesFile      = "series.csv"
	CheckpointsFile = "checkpoints.csv"
	RecoveriesFile  = "recoveries.csv"
	LatenciesFile   = "latencies.csv"
	VerdictsFile    = "verdicts.json"
	ExpectFile      = "expectations.json" // only of a run of which something was expected
	BugFile         = "bug.txt"           // only of a run that ended by a bug of the harness: messages and stacks
)

// ErrDamaged is wrapped by every error about files that are missing, cut, or not what they should be (exit code 65).
var ErrDamaged = errors.New("results are damaged")

// Manifest describes an invocation.
type Manifest struct {
	Schema      int           `json:"schema"`
	Scenario    string        `json:"scenario"`
	About       string        `json:"about,omitempty"`
	Command     []string      `json:"command"`
	Version     Build         `json:"version"`
	Host        Host          `json:"host"`
	World       string        `json:"world"`
	Store       string        `json:"store"`
	Profile     string        `json:"profile"`
	StoreAbout  string        `json:"storeAbout,omitempty"` // what a server in a container was made from
	ObjectsAt   string        `json:"objectsAt,omitempty"`  // where kept objects lie
	Seed        uint64        `json:"seed"`
	Resolved    string        `json:"resolvedSha256"` // of scenario.resolved.yaml
	Detection   string        `json:"detection"`      // failure-detection model with its values
	Started     time.Time     `json:"started"`
	Took        time.Duration `json:"tookNs"`
	Runs        []RunEntry    `json:"runs"`
	Digest      string        `json:"digest,omitempty"` // simulated world only: hash of the runs' digests in name order
	Exit        int           `json:"exit"`
	Outcome     string        `json:"outcome"` // pass, correctness violation, inconclusive, interrupted, ...
	Warnings    []string      `json:"warnings,omitempty"`
	Baseline    string        `json:"baseline"`
	Repetitions int           `json:"repetitions"`
}

// Build says which program made the results.
type Build struct {
	Commit     string `json:"commit,omitempty"`
	Dirty      bool   `json:"dirty,omitempty"`
	Executable string `json:"executableSha256,omitempty"`
	Go         string `json:"go"`
}

// Host says where.
type Host struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
}

// RunEntry is one run of an invocation.
type RunEntry struct {
	Name    string        `json:"name"` // <arm>-<rep>, the directory under runs
	Arm     string        `json:"arm"`
	Rep     int           `json:"rep"`
	Status  string        `json:"status"` // finished, interrupted, failed, not-run
	Error   string        `json:"error,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // pass, fail, inconclusive
	Expect  string        `json:"expect,omitempty"`  // met, missed; empty where nothing was expected
	Digest  string        `json:"digest,omitempty"`  // simulated world only
	Took    time.Duration `json:"tookNs"`
}

// Running is the outcome that a manifest has until the invocation ends. It stays if the program dies.
const Running = "running"

// Dir is the directory of an invocation.
type Dir string

// RunDir is the directory of one run.
type RunDir string

// Create makes a fresh directory <out>/<scenario>/<utc>-<seed>; two invocations in one second get two directories.
func Create(out, scenario string, at time.Time, seed uint64) (Dir, error) {
	parent := filepath.Join(out, scenario)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("create results directory: %w", err)
	}
	name := fmt.Sprintf("%s-%d", at.UTC().Format("20060102T150405Z"), seed)
	for n := 1; n < 1000; n++ {
		path := filepath.Join(parent, name)
		if n > 1 {
			path += fmt.Sprintf(".%d", n)
		}
		err := os.Mkdir(path, 0o755)
		if err == nil {
			return Dir(path), nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("create results directory: %w", err)
		}
	}
	return "", fmt.Errorf("create results directory: %s and 998 more of that name exist", filepath.Join(parent, name))
}

// Path joins names to the directory.
func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Run returns the directory of the named run, which need not exist.
func (d Dir) Run(name string) RunDir { return RunDir(d.Path(RunsDir, name)) }

// CreateRun makes the directory of a run; it must not exist yet.
func (d Dir) CreateRun(name string) (RunDir, error) {
	if err := os.MkdirAll(d.Path(RunsDir), 0o755); err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	r := d.Run(name)
	if err := os.Mkdir(string(r), 0o755); err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	return r, nil
}

// reserve is more than any manifest needs.
const reserve = 64 << 10

func (d Dir) spare() string { return d.Path(".spare") }

// Reserve keeps room on the disk for the last version of the manifest, which has to say that the disk is full.
func (d Dir) Reserve() error { return WriteFile(d.spare(), make([]byte, reserve)) }

// Release gives the room back; it is fine where there is none.
func (d Dir) Release() error {
	if err := os.Remove(d.spare()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Path joins names to the directory.
func (r RunDir) Path(names ...string) string {
	return filepath.Join(append([]string{string(r)}, names...)...)
}

// Remove removes a file or folder of the run and everything in it. Nothing there is no error.
func (r RunDir) Remove(name string) error { return os.RemoveAll(r.Path(name)) }

// Size is how many bytes the run's files have; what is still buffered is not in it.
func (r RunDir) Size() (n int64) {
	entries, err := os.ReadDir(string(r))
	if err != nil {
		return 0 // whoever writes there meets the same error
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n
}

// Name is the run's name.
func (r RunDir) Name() string { return filepath.Base(string(r)) }

// WriteJSON writes v, indented, to path: beside it first, synced, then renamed, so that path is whole or untouched.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(path), err)
	}
	return WriteFile(path, append(b, '\n'))
}

// WriteFile writes data to path: beside it first, synced, then renamed.
func WriteFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

func damaged(path string, line int64, err error) error {
	if line > 0 {
		return fmt.Errorf("%w: %s:%d: %w", ErrDamaged, path, line, err)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
}

// Open finds the invocation that path belongs to: path is an invocation directory or one of its run directories. runs are the
// names of the runs that path covers, in order of the manifest.
func Open(path string) (d Dir, m Manifest, runs []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", m, nil, damaged(path, 0, err)
	}
	if !info.IsDir() {
		return "", m, nil, damaged(path, 0, errors.New("not a directory"))
	}
	only := ""
	d = Dir(filepath.Clean(path))
	if _, err := os.Stat(d.Path(ManifestFile)); errors.Is(err, fs.ErrNotExist) && filepath.Base(filepath.Dir(string(d))) == RunsDir {
		only = filepath.Base(string(d))
		d = Dir(filepath.Dir(filepath.Dir(string(d))))
	}
	if err := ReadJSON(d.Path(ManifestFile), &m); err != nil {
		return "", m, nil, err
	}
	if m.Schema != Schema {
		return "", m, nil, damaged(d.Path(ManifestFile), 0, fmt.Errorf("schema version %d, this program reads %d", m.Schema, Schema))
	}
	for _, r := range m.Runs {
		if r.Name == "" || r.Name != filepath.Base(r.Name) || r.Name == ".." || r.Name == "." {
			return "", m, nil, damaged(d.Path(ManifestFile), 0, fmt.Errorf("run name %q is not a file name", r.Name))
		}
		if info, err := os.Lstat(string(d.Run(r.Name))); err == nil && !info.IsDir() {
			// one that points elsewhere would have its verdicts written there
			return "", m, nil, damaged(string(d.Run(r.Name)), 0, errors.New("not a directory"))
		}
		if r.Status != "not-run" && (only == "" || only == r.Name) {
			runs = append(runs, r.Name)
		}
	}
	if only != "" && len(runs) == 0 {
		return "", m, nil, damaged(d.Path(ManifestFile), 0, fmt.Errorf("does not name run %q", only))
	}
	return d, m, runs, nil
}
