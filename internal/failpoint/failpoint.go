// Package failpoint has the named places in the code where a run may crash, fail or wait.
//
// A Set belongs to one run; nothing is armed or counted per process, since many simulated runs share one. Code calls
// Set.Hit where it passes a point. Unless an action is armed there, that counts and costs a few nanoseconds; an armed
// action runs synchronously in the emitting process, which must hold no lock, and may return an error, wait in world
// primitives, or kill the process's domain. A nil *Set is usable and inert. Steps of use: New, Arm, pass the set down,
// and judge by Count that each armed point was hit.
//
// A set also carries the planted bugs of the run (mutants.go): they are compiled in only with the build tag mutants.
package failpoint

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
)

// Checkpoint stages, in the order of a checkpoint's life. Each takes time, hence a point where it begins and one where
// it has ended.
const (
	CheckpointIDBegin        = "checkpoint-id-begin"         // coordinator: a range of ids is reserved in the log
	CheckpointIDEnd          = "checkpoint-id-end"           //
	CheckpointPendingBegin   = "checkpoint-pending-begin"    // coordinator: the pending record is made, sources are triggered
	CheckpointPendingEnd     = "checkpoint-pending-end"      //
	CheckpointPrecommitBegin = "checkpoint-precommit-begin"  // subtask: the synchronous part
	CheckpointPrecommitEnd   = "checkpoint-precommit-end"    //
	CheckpointUploadBegin    = "checkpoint-upload-begin"     // subtask: the asynchronous part persists its state
	CheckpointUploadEnd      = "checkpoint-upload-end"       //
	CheckpointLocalCopyBegin = "checkpoint-local-copy-begin" // worker: the copy of an object for local recovery
	CheckpointLocalCopyEnd   = "checkpoint-local-copy-end"   //
	CheckpointAckBegin       = "checkpoint-ack-begin"        // subtask: acknowledges with its handles
	CheckpointAckEnd         = "checkpoint-ack-end"          //
	CheckpointRegisterBegin  = "checkpoint-register-begin"   // coordinator: shared state is registered
	CheckpointRegisterEnd    = "checkpoint-register-end"     //
	CheckpointMetadataBegin  = "checkpoint-metadata-begin"   // coordinator: the metadata object is written
	CheckpointMetadataEnd    = "checkpoint-metadata-end"     //
	CheckpointEntryBegin     = "checkpoint-entry-begin"      // coordinator: the log entry that completes the checkpoint
	CheckpointEntryEnd       = "checkpoint-entry-end"        //
	CheckpointDropBegin      = "checkpoint-drop-begin"       // coordinator: references of a subsumed checkpoint are dropped
	CheckpointDropEnd        = "checkpoint-drop-end"         //
	CheckpointDeleteBegin    = "checkpoint-delete-begin"     // coordinator: unused objects are deleted
	CheckpointDeleteEnd      = "checkpoint-delete-end"       //
	CheckpointNotifyBegin    = "checkpoint-notify-begin"     // coordinator: subtasks are told of the completion
	CheckpointNotifyEnd      = "checkpoint-notify-end"       //
)

// numPoints is the length of Points.
const numPoints = 24

// Points lists the checkpoint stages in the order of a checkpoint's life. The caller owns the list.
func Points() []string {
	return []string{
		CheckpointIDBegin, CheckpointIDEnd,
		CheckpointPendingBegin, CheckpointPendingEnd,
		CheckpointPrecommitBegin, CheckpointPrecommitEnd,
		CheckpointUploadBegin, CheckpointUploadEnd,
		CheckpointLocalCopyBegin, CheckpointLocalCopyEnd,
		CheckpointAckBegin, CheckpointAckEnd,
		CheckpointRegisterBegin, CheckpointRegisterEnd,
		CheckpointMetadataBegin, CheckpointMetadataEnd,
		CheckpointEntryBegin, CheckpointEntryEnd,
		CheckpointDropBegin, CheckpointDropEnd,
		CheckpointDeleteBegin, CheckpointDeleteEnd,
		CheckpointNotifyBegin, CheckpointNotifyEnd,
	}
}

// Known tells whether point is one of Points or StoragePoints.
func Known(point string) bool {
	return slices.Contains(Points(), point) || slices.Contains(StoragePoints(), point)
}

// Hit is one passage of a process through a point.
type Hit struct {
	Point string
	// Actor is who passes: a subtask, worker or coordinator.
	Actor string
	// N counts the passages of the run through the point, this one included.
	N int64
}

// Action is what an armed point does, in the emitting process and before Hit returns. Its error becomes Hit's.
type Action func(ctx context.Context, h Hit) error

// When says which passages trigger an armed action. The zero value is every passage.
type When struct {
	// Actor restricts to passages of this actor, unless empty.
	Actor string
	// Nth is the first passage among those of Actor, counted from the arming, that triggers; 0 means 1.
	Nth int64
	// Times is how many passages from the Nth on trigger; 0 means all.
	Times int64
}

// Set holds what is armed in one run and counts. All methods are safe for concurrent use.
type Set struct {
	index   map[string]int // never changes after New
	points  [numPoints + numStorage]point
	mutants mutants //lint:ignore U1000 empty and unused without the build tag mutants
}

// point is the state of a point.
type point struct {
	hits  atomic.Int64
	armed atomic.Pointer[[]*arm] // replaced as a whole
}

// arm is an armed action.
type arm struct {
	when      When
	action    Action
	passed    atomic.Int64 // passages of when.Actor since the arming
	triggered atomic.Int64
}

// New returns a set with nothing armed.
func New() *Set {
	s := &Set{index: make(map[string]int, numPoints+numStorage)}
	for i, p := range append(Points(), StoragePoints()...) {
		s.index[p] = i
	}
	return s
}

// Armed is an armed action, to be disarmed.
type Armed struct {
	p *point
	a *arm
}

// Arm makes the passages through point that when selects run a. Several actions at a point run in the order of their
// arming; the first error ends the row. An unknown point is an error.
func (s *Set) Arm(point string, when When, a Action) (*Armed, error) {
	i, ok := s.index[point]
	if !ok {
		return nil, fmt.Errorf("no failpoint is called %q", point)
	}
	when.Nth = max(when.Nth, 1)
	armed := &Armed{p: &s.points[i], a: &arm{when: when, action: a}}
	armed.p.edit(func(all []*arm) []*arm { return append(all, armed.a) })
	return armed, nil
}

// Disarm makes the action run no more; passages under way are not waited for. It may be called again.
func (a *Armed) Disarm() {
	a.p.edit(func(all []*arm) []*arm {
		return slices.DeleteFunc(all, func(x *arm) bool { return x == a.a })
	})
}

// Triggered is how often the action has run.
func (a *Armed) Triggered() int64 { return a.a.triggered.Load() }

// edit replaces the armed actions by what f makes of a copy.
func (p *point) edit(f func([]*arm) []*arm) {
	for {
		old := p.armed.Load()
		var all []*arm
		if old != nil {
			all = slices.Clone(*old)
		}
		if all = f(all); p.armed.CompareAndSwap(old, &all) {
			return
		}
	}
}

// Hit says that actor passes point. It returns the error of the armed action, nil if none is. An unknown point panics,
// since a misspelt one would never trigger. The caller holds no lock.
func (s *Set) Hit(ctx context.Context, point string, actor string) error {
	if s == nil {
		return nil
	}
	i, ok := s.index[point]
	if !ok {
		panic("failpoint: no point is called " + point)
	}
	p := &s.points[i]
	n := p.hits.Add(1)
	armed := p.armed.Load()
	if armed == nil {
		return nil
	}
	for _, a := range *armed {
		if err := a.pass(ctx, Hit{Point: point, Actor: actor, N: n}); err != nil {
			return err
		}
	}
	return nil
}

// pass runs the action if h is a passage it waits for.
func (a *arm) pass(ctx context.Context, h Hit) error {
	if a.when.Actor != "" && a.when.Actor != h.Actor {
		return nil
	}
	k := a.passed.Add(1) - a.when.Nth
	if k < 0 || a.when.Times > 0 && k >= a.when.Times {
		return nil
	}
	a.triggered.Add(1)
	return a.action(ctx, h)
}

// Count is how often the run has passed point; 0 for an unknown one and for a nil set.
func (s *Set) Count(point string) int64 {
	if s == nil {
		return 0
	}
	if i, ok := s.index[point]; ok {
		return s.points[i].hits.Load()
	}
	return 0
}

// Passed is how often the run has passed each point; points that it never passed are not in it. The caller owns the map.
func (s *Set) Passed() map[string]int64 {
	all := map[string]int64{}
	for _, p := range append(Points(), StoragePoints()...) {
		if n := s.Count(p); n > 0 {
			all[p] = n
		}
	}
	return all
}
