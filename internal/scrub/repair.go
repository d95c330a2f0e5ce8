package scrub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// The defaults of RepairOptions.
const (
	DefaultGrace = time.Hour
	leastQuiet   = 2 * time.Minute
	quietPauses  = 5
)

// OwnerPrefix begins the names that repairs take the coordinator log over with. Such an entry is no sign of life.
const OwnerPrefix = "scrub-"

// RepairOptions say what a repair may do. The zero value is a dry run with the defaults.
type RepairOptions struct {
	// Yes removes; otherwise it is only counted what would be.
	Yes bool
	// Grace is the age that an orphan must have; nil: an hour. Where a store tells no ages, only a Grace of 0 removes anything.
	Grace *time.Duration
	// Quiet is how long the coordinator log must have been silent; nil: two minutes, or five times its median pause if that is more.
	Quiet *time.Duration
	// Owner, behind OwnerPrefix, is the name that the coordinator log is taken over with; it must be unlike that of any other repair.
	Owner string
	// Now is the time that ages are measured at.
	Now time.Time
}

// Repaired is what a repair did, or would do.
type Repaired struct {
	Objects int64  `json:"objects"` // removed
	Bytes   int64  `json:"bytes"`
	Uploads int64  `json:"uploads"` // ended
	Young   int64  `json:"young"`   // spared, since younger than the grace age
	Ageless int64  `json:"ageless"` // spared, since the store does not tell their age
	Failed  int64  `json:"failed"`  // could not be removed; the first error is in Problem
	Problem string `json:"problem,omitempty"`
	Done    bool   `json:"done"` // false: it was a dry run
}

// Left is how many orphans are still there, but for foreign objects.
func (r Repaired) Left() int64 {
	left := r.Young + r.Ageless + r.Failed
	if !r.Done {
		left += r.Objects + r.Uploads
	}
	return left
}

// RefusedError says why nothing is repaired.
type RefusedError struct{ Reason, Remedy string }

// Error is reason and remedy.
func (e *RefusedError) Error() string { return e.Reason + "; " + e.Remedy }

// repair is a Repair under way.
type repair struct {
	b     store.Bucket
	r     *Report
	o     RepairOptions
	grace time.Duration
	done  Repaired
	batch []store.Attributes
}

// Repair removes the orphans and ends the uploads that r, the result of an audit of b, has found. It refuses, with a
// RefusedError, where no run has marked the prefix, where damage leaves open what is needed, and where a coordinator may be
// alive. Savepoints, foreign objects and the coordinator log are never removed.
//
// Before the first removal it takes the coordinator log over, as a new leader does: a coordinator that is alive in spite of
// all cannot complete a checkpoint any more that needs what is removed, and steps down.
func Repair(ctx context.Context, w world.World, b store.Bucket, r *Report, o RepairOptions) (Repaired, error) {
	ctx = store.WithInfo(ctx, store.Info{Cause: Cause, Who: Cause})
	p := &repair{b: b, r: r, o: o, grace: DefaultGrace, done: Repaired{Done: o.Yes}}
	if o.Grace != nil {
		p.grace = *o.Grace
	}
	if err := p.allowed(); err != nil {
		return p.done, err
	}
	if r.Counts[Orphan]+r.Counts[Upload] == 0 {
		return p.done, nil
	}
	if o.Yes {
		if err := p.takeOver(ctx, w); err != nil {
			return p.done, err
		}
	}
	if err := p.objects(ctx); err != nil {
		return p.done, err
	}
	return p.done, p.uploads(ctx)
}

// allowed tells why nothing may be removed.
func (p *repair) allowed() error {
	l := p.r.Log
	switch {
	case !p.r.Marked:
		return &RefusedError{fmt.Sprintf("no run has marked this prefix: it has no object %q", Marker), "remove by hand what is yours"}
	case p.r.Unsure != "":
		return &RefusedError{"what is needed is not certain: " + p.r.Unsure, "restore the damaged objects from a copy first, or remove the whole prefix"}
	}
	quiet := p.r.Quiet()
	if p.o.Quiet != nil {
		quiet = *p.o.Quiet
	}
	if quiet <= 0 {
		return nil
	}
	if l.Newest.IsZero() {
		return &RefusedError{"a coordinator may be alive: the store does not tell when its log was written last", "give --quiet 0s once you know that none is"}
	}
	if silent := p.o.Now.Sub(l.Newest); silent < quiet {
		return &RefusedError{fmt.Sprintf("a coordinator may be alive: its log was written %s ago", silent.Round(time.Second)),
			fmt.Sprintf("stop the job and try again once it is silent for %s (--quiet)", quiet.Round(time.Second))}
	}
	return nil
}

// Quiet is how long the coordinator log has to be silent until its coordinator counts as dead.
func (r *Report) Quiet() time.Duration { return max(leastQuiet, quietPauses*r.Log.Pause) }

// takeOver makes sure that nobody else completes a checkpoint from here on, and that none was since the audit.
func (p *repair) takeOver(ctx context.Context, w world.World) error {
	l, err := checkpoint.OpenLog(ctx, w, p.b, OwnerPrefix+p.o.Owner)
	if err != nil {
		return fmt.Errorf("read the coordinator log: %w", err)
	}
	before := l.State().Seq
	if before == p.r.Log.Entries {
		if _, err = l.TakeOver(ctx); err == nil && l.State().Seq == before+1 {
			return nil
		}
	}
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) {
		return fmt.Errorf("take over the coordinator log: %w", err)
	}
	return &RefusedError{"a coordinator is alive: it has written to its log since the audit", "stop the job and try again"}
}

// deleteBatch is how many objects are removed at a time.
const deleteBatch = 1000

// objects removes what is listed, needed by nothing and old enough.
func (p *repair) objects(ctx context.Context) error {
	for at, err := range p.b.List(ctx, "", "") {
		if err != nil {
			return fmt.Errorf("list the store: %w", err)
		}
		if !p.orphaned(at.Key) || !p.old(at.Modified) {
			continue
		}
		if p.batch = append(p.batch, at); len(p.batch) == deleteBatch {
			if err := p.remove(ctx); err != nil {
				return err
			}
		}
	}
	return p.remove(ctx)
}

// orphaned tells whether an object was an orphan at the time of the audit, or came later and would have been one: no
// checkpoint has completed since.
func (p *repair) orphaned(key string) bool {
	if p.r.uses[key] != nil {
		return false
	}
	switch ClassOf(key) {
	case ClassMeta:
		_, _, ok := checkpoint.ParseMetadataKey(key)
		return ok
	case ClassLog, ClassBase:
		_, writer := writerOf(key)
		return writer != ""
	}
	return false
}

// old tells whether what was written then is beyond the grace age, and counts what is not.
func (p *repair) old(then time.Time) bool {
	switch {
	case p.grace <= 0:
		return true
	case then.IsZero():
		p.done.Ageless++
		return false
	case p.o.Now.Sub(then) < p.grace:
		p.done.Young++
		return false
	}
	return true
}

// remove removes the batch.
func (p *repair) remove(ctx context.Context) error {
	failed := make([]error, len(p.batch))
	if p.o.Yes && len(p.batch) > 0 {
		keys := make([]string, len(p.batch))
		for i, at := range p.batch {
			keys[i] = at.Key
		}
		for i, d := range p.b.Delete(ctx, keys) {
			failed[i] = d.Err
		}
	}
	for i, at := range p.batch {
		if failed[i] != nil {
			p.fail(failed[i])
			continue
		}
		p.done.Objects++
		p.done.Bytes += at.Size
	}
	p.batch = p.batch[:0]
	return context.Cause(ctx)
}

func (p *repair) fail(err error) {
	p.done.Failed++
	if p.done.Problem == "" {
		p.done.Problem = err.Error()
	}
}

// uploads ends the uploads of a run that are old enough.
func (p *repair) uploads(ctx context.Context) error {
	open, err := p.b.Uploads(ctx, "")
	if err != nil {
		return fmt.Errorf("list open uploads: %w", err)
	}
	for _, u := range open {
		if class := ClassOf(u.Key); class == ClassOther || class == ClassSavepoint || !p.old(u.Begun) {
			continue
		}
		if p.o.Yes {
			if err := p.b.AbortUpload(ctx, u); err != nil && !errors.Is(err, store.ErrNotExist) {
				p.fail(err)
				continue
			}
		}
		p.done.Uploads++
	}
	return nil
}
