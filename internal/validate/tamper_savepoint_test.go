package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// lives is the run of a job that is stopped with a savepoint, started without its changelog, cancelled, and started again.
const lives = "lives-1"

func lifelong() (plan.Plan, error) {
	p, err := disturbed("changelog-on")
	p.Arm, p.Baseline, p.Faults, p.Rescales = "lives", false, nil, nil
	without := p.Backend
	without.Changelog.Enabled = false
	stop := func(form string) plan.Step { return plan.Step{Stop: &plan.Stop{Savepoint: form}} }
	p.Phases = slices.Concat([]plan.Phase{
		{Name: "warm", Records: 600},
		{Name: "restart", Within: seconds(30), Steps: []plan.Step{{Savepoint: plan.Native}, stop(plan.Canonical),
			{Start: &plan.Start{From: plan.FromSavepoint, Parallelism: 3, Arm: "changelog-off", Backend: &without}}}},
		{Name: "on", Records: 600},
		{Name: "again", Within: seconds(30), Steps: []plan.Step{stop(""), {Start: &plan.Start{From: plan.FromCheckpoint}}}},
		{Name: "chaos", Records: 600},
	}, p.Phases[2:])
	return p, err
}

// owners is the run of a job that is started in mode legacy from a native savepoint, whose tables its checkpoints go on to name,
// and in mode claim from another one, which it subsumes.
const owners = "owners-1"

func owned() (plan.Plan, error) {
	p, err := disturbed("changelog-off")
	p.Arm, p.Baseline, p.Faults, p.Rescales, p.Backend.Name = "owners", false, nil, nil, "lsm"
	again := func(name, mode string) plan.Phase {
		return plan.Phase{Name: name, Within: seconds(30), Steps: []plan.Step{{Stop: &plan.Stop{Savepoint: plan.Native}},
			{Start: &plan.Start{From: plan.FromSavepoint, Mode: mode}}}}
	}
	p.Phases = slices.Concat([]plan.Phase{
		{Name: "warm", Records: 600}, again("borrow", plan.ModeLegacy),
		{Name: "on", Records: 600}, again("take", plan.ModeClaim),
		{Name: "more", Records: 600},
		{Name: "leave", Within: seconds(30), Steps: []plan.Step{{Stop: &plan.Stop{}}, {Start: &plan.Start{From: plan.FromCheckpoint, Mode: plan.ModeNoClaim}}}},
		{Name: "chaos", Records: 1200},
	}, p.Phases[2:])
	return p, err
}

// ownerships damages what says who owns a savepoint.
func ownerships() []tampering {
	begins := func(mode string, change func(all []results.LogLine, i int)) func(f *files) (id uint64) {
		return func(f *files) (id uint64) {
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				i := find(f, all, 0, func(l *results.LogLine) bool { return l.Kind == string(checkpoint.Start) && l.Mode == mode })
				id = all[i].Checkpoint
				change(all, i)
				return all
			})
			return id
		}
	}
	silent := func(mode string) func(f *files) uint64 {
		return begins(mode, func(all []results.LogLine, i int) { all[i].Kind = string(checkpoint.Reserve) })
	}
	all := []tampering{
		{check: "C5", name: "a start that the log does not have", do: func(f *files) string {
			return fmt.Sprintf("the job was started from %d in mode legacy, which the coordinator log does not say", silent(plan.ModeLegacy)(f))
		}},
		{check: "C5", name: "named without leave", do: func(f *files) string {
			begins(plan.ModeLegacy, func(all []results.LogLine, i int) { all[i].Mode = plan.ModeNoClaim })(f)
			return "which is the user's"
		}},
		{check: "C5", name: "gone without being claimed", also: []string{"C2"}, do: func(f *files) string {
			return fmt.Sprintf("savepoint %d completed and was not found", silent(plan.ModeClaim)(f))
		}},
		{check: "C2", name: "dropped without being claimed", also: []string{"C5"}, do: func(f *files) string {
			return fmt.Sprintf("drops checkpoint %d", silent(plan.ModeClaim)(f))
		}},
		{check: "F5", name: "object of a checkpoint of the user's deleted", do: func(f *files) string {
			log := lines[results.LogLine](f, results.CoordLogFile)
			left := log[find(f, log, 0, func(l *results.LogLine) bool {
				return l.Kind == string(checkpoint.Start) && l.Mode == plan.ModeNoClaim
			})].Checkpoint
			states := lines[results.StateLine](f, results.StatesFile)
			of := states[find(f, states, 0, func(l *results.StateLine) bool { return l.Restore != nil && l.Checkpoint == left })].Restore
			key := of.Objects[slices.IndexFunc(of.Objects, func(o checkpoint.ObjectUse) bool { return o.Key != of.MetaKey })].Key
			f.requests(func(all []history.Request) []history.Request {
				q := all[len(all)-1]
				q.Seq, q.Op, q.Key, q.Who, q.Applied = q.Seq+1, history.OpDelete, key, "coordinator-0", history.AppliedYes
				return append(all, q)
			})
			return key
		}},
		{check: "C5", name: "deleted before it was subsumed", do: func(f *files) string {
			key := ""
			claimed := lines[results.LogLine](f, results.CoordLogFile)
			id := claimed[find(f, claimed, 0, func(l *results.LogLine) bool { return l.Kind == string(checkpoint.Start) && l.Mode == plan.ModeClaim })].Checkpoint
			f.requests(func(all []history.Request) []history.Request {
				i := find(f, all, 0, func(q *history.Request) bool {
					of, ok := checkpoint.SavepointOf(q.Key)
					return q.Op == history.OpDelete && ok && of == id
				})
				key = all[i].Key
				put := all[find(f, all, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Key == key })]
				all[i].Start = put.Start + put.Duration + time.Millisecond
				return all
			})
			return key
		}},
	}
	for i := range all {
		all[i].run = owners
	}
	return all
}

func savepoints() []tampering {
	events := func(k history.Kind, nth int, change func(all []history.Event, i int) []history.Event) func(f *files) string {
		return func(f *files) string {
			id := uint64(0)
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, nth, kind(k))
				id = all[i].Checkpoint
				return change(all, i)
			})
			return fmt.Sprintf("savepoint %d", id)
		}
	}
	named := func(name string, do func(f *files) string) func(f *files) string {
		return func(f *files) string { do(f); return name }
	}
	// object is one that the first savepoint names, besides its metadata.
	object := func(f *files) (key string) {
		for _, l := range lines[results.StateLine](f, results.StatesFile) {
			if l.Restore != nil && l.Restore.Savepoint {
				for _, o := range l.Restore.Objects {
					if o.Key != l.Restore.MetaKey {
						return o.Key
					}
				}
			}
		}
		f.t.Fatal("no savepoint names an object")
		return ""
	}
	requests := func(change func(all []history.Request, i int) []history.Request) func(f *files) string {
		return func(f *files) string {
			key := object(f)
			f.requests(func(all []history.Request) []history.Request {
				return change(all, find(f, all, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Key == key }))
			})
			return key
		}
	}
	all := []tampering{
		{check: "C5", name: "never ended", also: []string{"O2", "S3", "S5", "M1"}, do: events(history.SavepointCompleted, 0, func(all []history.Event, i int) []history.Event { return slices.Delete(all, i, i+1) })},
		{check: "C5", name: "ended twice", do: events(history.SavepointCompleted, 0, func(all []history.Event, i int) []history.Event { return slices.Insert(all, i, all[i]) })},
		{check: "C5", name: "never triggered", also: []string{"M1"}, do: events(history.SavepointTriggered, 0, func(all []history.Event, i int) []history.Event { return slices.Delete(all, i, i+1) })},
		{check: "C5", name: "other bytes", do: events(history.SavepointCompleted, 1, func(all []history.Event, i int) []history.Event { all[i].Bytes++; return all })},
		{check: "C5", name: "emitted behind it", also: []string{"O1"}, do: events(history.SavepointCompleted, 1, func(all []history.Event, i int) []history.Event {
			e := history.Event{At: all[i].At, Kind: history.SourceRange, Actor: "source-0", Attempt: all[i].Attempt, From: all[i].Positions[0], To: all[i].Positions[0] + 1}
			return slices.Insert(all, i+1, e)
		})},
		{check: "C5", name: "not stopped", do: named("planned was", events(history.JobStopped, 1, func(all []history.Event, i int) []history.Event { return slices.Delete(all, i, i+1) }))},
		{check: "C5", name: "other parallelism", do: named("at parallelism 2", events(history.JobStarted, 0, func(all []history.Event, i int) []history.Event { all[i].Count = 2; return all }))},
		{check: "C5", name: "started from another one", do: named("the last one to complete was", events(history.JobStarted, 0, func(all []history.Event, i int) []history.Event { all[i].Checkpoint--; return all }))},
		{check: "C5", name: "not in the coordinator log", do: func(f *files) string {
			id := uint64(0)
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				l := &all[find(f, all, 0, func(l *results.LogLine) bool { return l.Kind == string(checkpoint.Savepoint) })]
				l.Kind, id = "reserve", l.Checkpoint
				return all
			})
			return fmt.Sprintf("savepoint %d completed without an entry", id)
		}},
		{check: "C5", name: "damaged", also: []string{"C3"}, do: func(f *files) string {
			id := uint64(0)
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				l := &all[find(f, all, 0, func(l *results.StateLine) bool { return l.Restore != nil && l.Restore.Savepoint })]
				l.Restore.OK, l.Restore.Error, id = false, "checksum", l.Checkpoint
				return all
			})
			return fmt.Sprintf("savepoint %d cannot be restored", id)
		}},
		{check: "C5", name: "object deleted", also: []string{"F1"}, do: requests(func(all []history.Request, i int) []history.Request {
			q := all[len(all)-1]
			q.Seq, q.Op, q.Key, q.Who, q.Applied = q.Seq+1, history.OpDelete, all[i].Key, "coordinator-0", history.AppliedYes
			return append(all, q)
		})},
		{check: "C5", name: "object put again", do: requests(func(all []history.Request, i int) []history.Request {
			q := all[i]
			q.Seq, q.Start = all[len(all)-1].Seq+1, q.Start+time.Minute
			return append(all, q)
		})},
		{check: "C5", name: "named by a checkpoint", also: []string{"M1"}, do: func(f *files) string {
			key := object(f)
			put := lines[history.Request](f, results.ObjectsFile)
			q := put[find(f, put, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Key == key })]
			edit(f, results.RefsFile, func(all []checkpoint.RefsChange) []checkpoint.RefsChange {
				last := &all[len(all)-1]
				last.Added = append(last.Added, checkpoint.ObjectUse{Key: key, Bytes: q.Bytes, CRC32C: q.CRC32C})
				return all
			})
			return key
		}},
		{check: "C5", name: "made of another one's objects", do: func(f *files) string {
			key := ""
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				s := all[find(f, all, 0, func(l *results.StateLine) bool { return l.Restore != nil && l.Restore.Savepoint })].Restore
				c := all[find(f, all, -1, func(l *results.StateLine) bool { return l.Restore != nil && !l.Restore.Savepoint })].Restore
				i := slices.IndexFunc(c.Objects, func(o checkpoint.ObjectUse) bool { return !strings.HasPrefix(o.Key, "meta/") })
				key = c.Objects[i].Key
				s.Objects = append(s.Objects, c.Objects[i])
				return all
			})
			return key
		}},
		{check: "C3", name: "retained although stopped with a savepoint", also: []string{"C2", "F5"}, do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				stop := find(f, all, 0, kind(history.JobStopped))
				i := find(f, all[:stop], -1, kind(history.CheckpointSubsumed))
				return slices.Delete(all, i, i+1)
			})
			return "was not found in the store"
		}},
		{check: "M1", name: "start without a row", do: func(f *files) string {
			editRows(f, results.RecoveriesFile, func(all []results.RecoveryRow) []results.RecoveryRow { return all[1:] })
			return "starts"
		}},
	}
	for i := range all {
		all[i].run = lives
	}
	return all
}
