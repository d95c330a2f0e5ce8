// Package scrub looks at a checkpoint store without a run: Audit checks everything that the retained checkpoints and the
// savepoints of a prefix need and finds what nobody needs, Repair removes the latter, Open and Overview show what a
// checkpoint holds.
//
// The coordinator log is the truth: what it retains names, by way of its metadata, each object that must be there; each other
// object that a run would have written is an orphan. Savepoints are the user's: they are audited, and nothing of them is
// ever an orphan.
//
// Memory: the references of all retained checkpoints and savepoints, each object once, plus Options.Memory. Objects that
// are larger than a reader's share of that are read in pieces.
//
// Steps of use: Prefixes finds the runs of a store, Audit one of them, then Repair, which takes the result of Audit.
package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Marker is the key of the object that a run marks its prefix with.
const Marker = "run"

// Cause marks the requests of this package in an object trace.
const Cause = "scrub"

// Object is one that a Format verifies.
type Object struct {
	Key  string
	Size int64
	io.ReaderAt
	// Refs are the parts of it that retained checkpoints name, each once.
	Refs []backend.ObjectRef
}

// Format knows one kind of objects.
type Format struct {
	Name  string // for messages: "heap snapshot"
	Magic string // the first bytes of such an object; empty: Ext decides
	Ext   string // the end of its key
	// Verify reads the object and tells what is wrong; damage is an error that wraps store.ErrCorrupt, best a backend.Damaged.
	Verify func(o Object) error
}

// Options say how to audit. Formats is required, the other zero values have the defaults given.
type Options struct {
	// Formats are tried in order. A checkpoint's object of none of them is a finding.
	Formats []Format
	// Readers is how many objects are read at a time; 8.
	Readers int
	// Memory bounds the bytes of objects held, of all readers together; 128 MiB.
	Memory int64
	// Shallow leaves the content of objects alone: they must be there and have their size.
	Shallow bool
	// Now is the time that ages are measured at.
	Now time.Time
	// Found is called for each finding, by one process at a time, and must not wait in the world; an error of it ends the audit.
	// Nil: findings are only counted.
	Found func(Finding) error
}

func (o Options) withDefaults() Options {
	if o.Readers <= 0 {
		o.Readers = 8
	}
	if o.Memory <= 0 {
		o.Memory = 128 << 20
	}
	if o.Found == nil {
		o.Found = func(Finding) error { return nil }
	}
	return o
}

// Kind is what is wrong with an object.
type Kind string

// The kinds of findings.
const (
	// Dangling: a retained checkpoint or a savepoint names an object that is not there.
	Dangling Kind = "dangling"
	// Corrupt: an object is not what was written, or a checkpoint contradicts itself.
	Corrupt Kind = "corrupt"
	// Orphan: an object of a run that nothing names.
	Orphan Kind = "orphan"
	// Upload: a multipart upload that was begun and never ended.
	Upload Kind = "upload"
	// Foreign: an object whose key no run would give it.
	Foreign Kind = "foreign"
	// Loose: an object in the folder of a savepoint that did not complete. It is the user's, hence no orphan.
	Loose Kind = "loose"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind  Kind   `json:"finding"`
	Key   string `json:"key"`
	Class Class  `json:"class"`
	Bytes int64  `json:"bytes,omitempty"`
	// Offset is where in the object the damage begins; nil where it has no place.
	Offset *int64 `json:"offset,omitempty"`
	// Modified is when the object was written; zero where the store does not tell.
	Modified time.Time `json:"modified,omitzero"`
	// Attempt and Writer say who wrote it, where the key tells; Cause why it is an orphan.
	Attempt uint64 `json:"attempt,omitempty"`
	Writer  string `json:"writer,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// Needed names the checkpoints and savepoints that name it.
	Needed []string `json:"needed,omitempty"`
	// Problem says what is wrong, in a line.
	Problem string `json:"problem,omitempty"`
}

// ErrNothing is returned for a prefix without an object of a run.
var ErrNothing = errors.New("holds no checkpoints")

// audit is an Audit under way.
type audit struct {
	w world.World
	b store.Bucket
	o Options
	r *Report

	mu    *world.Mutex // guards what the readers touch: r and the calls of o.Found
	uses  map[string]*use
	known ledger
}

// Audit reads what lies in b, which holds the keys of one run, and returns what it found. Damage is a finding, not an error;
// an error means that the audit is not complete. It writes nothing.
func Audit(ctx context.Context, w world.World, b store.Bucket, o Options) (*Report, error) {
	ctx = store.WithInfo(ctx, store.Info{Cause: Cause, Who: Cause})
	a := &audit{w: w, b: b, o: o.withDefaults(), mu: world.NewMutex(w), uses: map[string]*use{}, r: newReport()}
	a.r.uses = a.uses
	for _, step := range []func(context.Context) error{a.marker, a.log, a.retained, a.listing, a.missing, a.uploads, a.moved} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if a.r.objects == 0 {
		return nil, ErrNothing
	}
	a.r.end()
	return a.r, nil
}

// marker reads what the run says of itself.
func (a *audit) marker(ctx context.Context) error {
	body, err := a.b.Get(ctx, Marker)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the marker of the run: %w", err)
	}
	a.r.Marked, a.r.Run = true, printable(body)
	return nil
}

// printable is the first line of a text, as far as it can be shown.
func printable(b []byte) string {
	line, _, _ := strings.Cut(string(b[:min(len(b), 512)]), "\n")
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, line), "")
}

// found counts a finding and hands it on.
func (a *audit) found(f Finding) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.r.count(f)
	return a.o.Found(f)
}

// corrupt is a finding about the object at key.
func (a *audit) corrupt(key string, err error, needed ...string) error {
	f := Finding{Kind: Corrupt, Key: key, Class: ClassOf(key), Needed: needed, Problem: problem(key, err)}
	var at *backend.Damaged
	if errors.As(err, &at) {
		f.Offset = &at.Offset
		f.Problem = problem(key, errors.New(at.What))
	}
	if u := a.uses[key]; u != nil {
		f.Bytes, f.Modified = u.bytes, u.modified
	}
	return a.found(f)
}

// problem is the text of an error without what a finding says anyway.
func problem(key string, err error) string {
	text := err.Error()
	for _, again := range []string{fmt.Sprintf("object %q: ", key), fmt.Sprintf("read metadata %q: ", key), fmt.Sprintf("read %q: ", key)} {
		text = strings.ReplaceAll(text, again, "")
	}
	return strings.TrimSuffix(text, ": "+store.ErrCorrupt.Error())
}

// missing finds what is named and was not listed.
func (a *audit) missing(ctx context.Context) error {
	var absent []string
	for key, u := range a.uses { // order-free: sorted below
		if !u.listed {
			absent = append(absent, key)
		}
	}
	slices.Sort(absent)
	for _, key := range absent {
		_, err := a.b.Stat(ctx, key) // it may have been put behind the listing
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNotExist) {
			return fmt.Errorf("look for %q: %w", key, err)
		}
		u := a.uses[key]
		f := Finding{Kind: Dangling, Key: key, Class: ClassOf(key), Bytes: u.bytes, Needed: a.names(u), Problem: "it does not exist"}
		if err := a.found(f); err != nil {
			return err
		}
	}
	return nil
}

// uploads finds open multipart uploads.
func (a *audit) uploads(ctx context.Context) error {
	open, err := a.b.Uploads(ctx, "")
	if err != nil {
		return fmt.Errorf("list open uploads: %w", err)
	}
	for _, u := range open {
		f := Finding{Kind: Upload, Key: u.Key, Class: ClassOf(u.Key), Modified: u.Begun, Cause: "upload that was never ended", Problem: "upload " + u.ID}
		f.Attempt, f.Writer = writerOf(u.Key)
		if err := a.found(f); err != nil {
			return err
		}
	}
	return nil
}

// moved tells whether somebody has written to the coordinator log since it was read.
func (a *audit) moved(ctx context.Context) error {
	for at, err := range a.b.List(ctx, checkpoint.EntryPrefix, checkpoint.EntryKey(a.known.next-1)) {
		if err != nil {
			return fmt.Errorf("list the coordinator log: %w", err)
		}
		if _, ok := checkpoint.ParseEntryKey(at.Key); !ok {
			continue
		}
		a.r.Moved = true
		a.r.unsure("the coordinator log went on during the audit")
		break
	}
	return nil
}

// Class is what an object is for, by its key.
type Class string

// The classes, in the order of reports.
const (
	ClassMarker    Class = "marker"
	ClassCoord     Class = "coord"
	ClassMeta      Class = "meta"
	ClassLog       Class = "log"
	ClassBase      Class = "base"
	ClassSavepoint Class = "savepoint"
	ClassOther     Class = "other"
)

// Classes lists the classes in the order of reports.
func Classes() []Class {
	return []Class{ClassMarker, ClassCoord, ClassMeta, ClassLog, ClassBase, ClassSavepoint, ClassOther}
}

// ClassOf is the class of the object at key.
func ClassOf(key string) Class {
	switch {
	case key == Marker:
		return ClassMarker
	case strings.HasPrefix(key, checkpoint.EntryPrefix):
		return ClassCoord
	case strings.HasPrefix(key, checkpoint.MetadataPrefix):
		return ClassMeta
	case strings.HasPrefix(key, checkpoint.LogPrefix):
		return ClassLog
	case strings.HasPrefix(key, checkpoint.BasePrefix):
		return ClassBase
	case strings.HasPrefix(key, checkpoint.SavepointPrefix):
		return ClassSavepoint
	}
	return ClassOther
}

// noOffset is where damage is that has no place in its object.
const noOffset = math.MinInt64
