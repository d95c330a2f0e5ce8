package scrub

import (
	"cmp"
	"slices"
	"time"
)

// Report is what an audit found.
type Report struct {
	// Run is the first line of the marker; Marked tells whether there is one.
	Run    string `json:"run,omitempty"`
	Marked bool   `json:"marked"`
	// Log is what the coordinator log says.
	Log LogLine `json:"log"`
	// Checkpoints are those retained, Savepoints those completed, in order of ids.
	Checkpoints []CheckpointLine `json:"checkpoints"`
	Savepoints  []CheckpointLine `json:"savepoints,omitempty"`
	Classes     []ClassLine      `json:"classes"` // of those with an object
	Orphans     []CauseLine      `json:"orphans"` // by cause, orphans, uploads and foreign objects; the largest first
	// Counts are the numbers of findings by kind.
	Counts map[Kind]int64 `json:"counts"`
	// Unsure says why orphans cannot be told with certainty, empty when they can: then nothing is repaired.
	Unsure string `json:"unsure,omitempty"`
	// Moved tells that the coordinator log went on during the audit: what was read is of no single moment, and what was dropped
	// meanwhile may have been found dangling.
	Moved bool `json:"moved,omitempty"`
	// Content tells that objects were read, not only looked for; Read is how many bytes.
	Content bool  `json:"content"`
	Read    int64 `json:"read"`

	objects int64
	classes map[Class]*ClassLine
	causes  map[causeOf]*CauseLine
	uses    map[string]*use
}

// LogLine is what the coordinator log says.
type LogLine struct {
	Entries uint64    `json:"entries"`
	Term    uint64    `json:"term"`            // of the newest takeover
	Leader  string    `json:"leader"`          // whose takeover it is
	Newest  time.Time `json:"newest,omitzero"` // when a coordinator wrote the last entry; zero where the store does not tell
	// Pause is the median time between the last entries, at most 64; 0: not known.
	Pause time.Duration `json:"pause"`
}

// CheckpointLine describes a retained checkpoint or a savepoint.
type CheckpointLine struct {
	ID          uint64    `json:"id"`
	Metadata    string    `json:"metadata"`
	Written     time.Time `json:"written,omitzero"` // when its metadata was; zero where the store does not tell
	Attempt     uint64    `json:"attempt"`
	Parallelism int       `json:"parallelism"`
	Objects     int       `json:"objects"`
	Full        int64     `json:"full"` // bytes that a restore reads at most: base and delta
	Base        int64     `json:"base"`
	Delta       int64     `json:"delta"`
	// Problem says why it cannot be read; empty: it can.
	Problem string `json:"problem,omitempty"`
	// Restored tells that Restore could restore it.
	Restored bool `json:"restored,omitempty"`
	// Removed tells that the user removed this savepoint.
	Removed bool `json:"removed,omitempty"`
}

// ClassLine is the objects of one class.
type ClassLine struct {
	Class   Class     `json:"class"`
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Needed  int64     `json:"needed"` // bytes that something needs
	Oldest  time.Time `json:"oldest,omitzero"`
	Newest  time.Time `json:"newest,omitzero"`
}

// CauseLine is the orphans of one class, attempt and cause.
type CauseLine struct {
	causeOf
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Oldest  time.Time `json:"oldest,omitzero"`
	Newest  time.Time `json:"newest,omitzero"`
}

// causeOf is what orphans are grouped by.
type causeOf struct {
	Class   Class  `json:"class"`
	Attempt uint64 `json:"attempt,omitempty"`
	Cause   string `json:"cause"`
}

// Verdict is what an audit comes to.
type Verdict int

// The verdicts.
const (
	Clean   Verdict = iota // nothing was found
	Litter                 // orphans, open uploads or foreign objects only
	Damaged                // something dangling or corrupt
)

// Verdict is the worst of what was found. What is loose is the user's own affair.
func (r *Report) Verdict() Verdict {
	switch {
	case r.Counts[Dangling]+r.Counts[Corrupt] > 0:
		return Damaged
	case r.Counts[Orphan]+r.Counts[Upload]+r.Counts[Foreign] > 0:
		return Litter
	}
	return Clean
}

func newReport() *Report {
	return &Report{
		Checkpoints: []CheckpointLine{}, Orphans: []CauseLine{}, Counts: map[Kind]int64{},
		classes: map[Class]*ClassLine{}, causes: map[causeOf]*CauseLine{},
	}
}

// count adds a finding.
func (r *Report) count(f Finding) {
	r.Counts[f.Kind]++
	if f.Kind != Orphan && f.Kind != Upload && f.Kind != Foreign {
		return
	}
	of := causeOf{f.Class, f.Attempt, f.Cause}
	l := r.causes[of]
	if l == nil {
		l = &CauseLine{causeOf: of}
		r.causes[of] = l
	}
	l.Objects++
	l.Bytes += f.Bytes
	span(&l.Oldest, &l.Newest, f.Modified)
}

// object adds a listed object.
func (r *Report) object(class Class, bytes int64, modified time.Time, needed bool) {
	r.objects++
	l := r.classes[class]
	if l == nil {
		l = &ClassLine{Class: class}
		r.classes[class] = l
	}
	l.Objects++
	l.Bytes += bytes
	if needed {
		l.Needed += bytes
	}
	span(&l.Oldest, &l.Newest, modified)
}

// span widens a span of time; a time that is not known changes nothing.
func span(oldest, newest *time.Time, at time.Time) {
	if at.IsZero() {
		return
	}
	if oldest.IsZero() || at.Before(*oldest) {
		*oldest = at
	}
	if at.After(*newest) {
		*newest = at
	}
}

// end brings what was collected into lists.
func (r *Report) end() {
	for _, class := range Classes() {
		if l := r.classes[class]; l != nil {
			r.Classes = append(r.Classes, *l)
		}
	}
	for _, l := range r.causes { // order-free: sorted below
		r.Orphans = append(r.Orphans, *l)
	}
	slices.SortFunc(r.Orphans, func(a, b CauseLine) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Cause, b.Cause))
	})
	byID := func(a, b CheckpointLine) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(r.Checkpoints, byID)
	slices.SortFunc(r.Savepoints, byID)
}

// unsure remembers the first reason why orphans are not certain.
func (r *Report) unsure(why string) {
	if r.Unsure == "" {
		r.Unsure = why
	}
}
