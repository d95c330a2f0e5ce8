package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

func endings() []tampering {
	audited := func(nth int, change func(r *results.RestoreLine)) func(f *files) string {
		return func(f *files) string {
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				change(all[find(f, all, nth, func(l *results.StateLine) bool { return l.Restore != nil })].Restore)
				return all
			})
			return fmt.Sprintf("checkpoint %d", f.retained()[nth])
		}
	}
	aborted := func(change func(all []history.Event, i int) []history.Event) func(f *files) string {
		return func(f *files) string {
			id := uint64(0)
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, 0, kind(history.CheckpointAborted))
				id = all[i].Checkpoint
				return change(all, i)
			})
			return fmt.Sprintf("checkpoint %d", id)
		}
	}
	return []tampering{
		{check: "C2", name: "never ended", do: aborted(func(all []history.Event, i int) []history.Event { return slices.Delete(all, i, i+1) })},
		{check: "C2", name: "ended twice", do: aborted(func(all []history.Event, i int) []history.Event { return slices.Insert(all, i, all[i]) })},
		{check: "C2", name: "aborted without a reason", also: []string{"M1"}, do: aborted(func(all []history.Event, i int) []history.Event { all[i].Reason = ""; return all })},
		{check: "C2", name: "not in the coordinator log", do: func(f *files) string {
			id := uint64(0)
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				complete := func(l *results.LogLine) bool { return l.Kind == "complete" }
				id = all[find(f, all, 2, complete)].Checkpoint
				return without(f, all, 2, complete)
			})
			return fmt.Sprintf("checkpoint %d completed without an entry", id)
		}},
		{check: "C2", name: "in the coordinator log only", do: func(f *files) string {
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				last := all[len(all)-1]
				return append(all, results.LogLine{Sequence: last.Sequence + 1, Kind: "complete", Term: last.Term, Checkpoint: 777})
			})
			return "checkpoint 777"
		}},
		{check: "C2", name: "entry repeated", do: func(f *files) string {
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine { return slices.Insert(all, 8, all[7]) })
			return "entry 8 where 9 should be"
		}},
		{check: "C2", name: "never dropped", do: func(f *files) string {
			id := uint64(0)
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				l := &all[find(f, all, 4, func(l *results.LogLine) bool { return l.Kind == "drop" })]
				l.Kind, id = "reserve", l.Checkpoint
				return all
			})
			return fmt.Sprintf("checkpoint %d was subsumed", id)
		}},
		{check: "C2", name: "references repeated", do: func(f *files) string {
			edit(f, results.RefsFile, func(all []checkpoint.RefsChange) []checkpoint.RefsChange { return append(all, all[len(all)-1]) })
			return results.RefsFile
		}},
		{check: "C2", name: "references not written", also: []string{"F1", "F5", "M1"}, do: func(f *files) string {
			id := uint64(0)
			edit(f, results.RefsFile, func(all []checkpoint.RefsChange) []checkpoint.RefsChange {
				id = all[2].Checkpoint
				return slices.Delete(all, 2, 3)
			})
			return fmt.Sprintf("checkpoint %d completed without a line", id)
		}},
		{check: "C3", name: "cannot be restored", do: audited(1, func(r *results.RestoreLine) { r.OK, r.Error = false, "object does not exist" })},
		{check: "C3", name: "newest cannot be restored", also: []string{"S1"}, do: audited(2, func(r *results.RestoreLine) { r.OK, r.Error = false, "object does not exist" })},
		{check: "C3", name: "not found in the store", also: []string{"F2"}, do: func(f *files) string {
			id := f.retained()[0]
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				return slices.DeleteFunc(all, func(l results.StateLine) bool { return l.Checkpoint == id })
			})
			return fmt.Sprintf("checkpoint %d completed, was never subsumed", id)
		}},
		{check: "C3", name: "too many retained", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				return without(f, all, -1, kind(history.CheckpointSubsumed))
			})
			return "4 checkpoints are retained"
		}, also: []string{"C2", "F5"}},
	}
}

func fences() []tampering {
	return []tampering{
		{check: "C4", name: "late acknowledgement of an older attempt", do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, -1, kind(history.CheckpointAckTaken))]
				e.Attempt--
				name = fmt.Sprintf("%s's acknowledgement of checkpoint %d from attempt %d", e.Actor, e.Checkpoint, e.Attempt)
				return all
			})
			return name
		}},
		{check: "C4", name: "acknowledgement of a failed attempt", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				failed := find(f, all, 0, kind(history.AttemptFailed))
				ack := all[find(f, all, 0, kind(history.CheckpointAckTaken))]
				ack.Attempt, ack.At = all[failed].Attempt, all[failed].At
				return slices.Insert(all, failed+1, ack)
			})
			return "after that had failed"
		}},
		{check: "C4", name: "checkpoint of an older attempt", also: []string{"O2"}, do: func(f *files) string {
			id := uint64(0)
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, -2, kind(history.CheckpointTriggered))]
				e.Attempt--
				id = e.Checkpoint
				return all
			})
			return fmt.Sprintf("checkpoint %d of attempt", id)
		}},
		{check: "C4", name: "attempt number used again", also: []string{"S3", "S5", "O1", "O2", "M1"}, do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, -1, kind(history.AttemptStarted))]
				e.Attempt--
				return all
			})
			return "was started after attempt"
		}},
		{check: "C4", name: "request of a dead worker", do: func(f *files) string {
			var dead history.Event
			for _, e := range lines[history.Event](f, results.HistoryFile) {
				if e.Kind == history.WorkerDown {
					dead = e
				}
			}
			f.requests(func(all []history.Request) []history.Request {
				q := all[find(f, all, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Who == dead.Actor && q.Attempt == 1 })]
				q.Seq, q.Start = uint64(len(all)+1), dead.At+time.Second
				return append(all, q)
			})
			return "by " + dead.Actor
		}},
		{check: "C4", name: "upload goes on after its worker's death", do: func(f *files) string {
			name := ""
			f.requests(func(all []history.Request) []history.Request {
				q := &all[find(f, all, 0, func(q *history.Request) bool { return q.Open && q.Op == history.OpPut && q.Attempt == 1 })]
				q.Open, q.Applied, q.Duration = false, history.AppliedYes, q.Duration+time.Second
				name = q.Key
				return all
			})
			return name
		}, also: []string{"F1"}},
		{check: "C4", name: "entry of an older leader", do: func(f *files) string {
			seq := uint64(0)
			edit(f, results.CoordLogFile, func(all []results.LogLine) []results.LogLine {
				l := &all[find(f, all, -1, func(l *results.LogLine) bool { return l.Kind == "complete" })]
				l.Term--
				seq = l.Sequence
				return all
			})
			return fmt.Sprintf("entry %d of the coordinator log", seq)
		}},
	}
}

// used finds an object that the nth retained checkpoint names, and no metadata.
func used(f *files, nth int) (o checkpoint.ObjectUse) {
	id := f.retained()[nth]
	for _, l := range lines[results.StateLine](f, results.StatesFile) {
		if l.Restore != nil && l.Checkpoint == id {
			return l.Restore.Objects[len(l.Restore.Objects)-1]
		}
	}
	return o
}

// more adds a line to the listing.
func more(l results.Listed) func(f *files) string {
	return func(f *files) string {
		edit(f, results.ListingFile, func(all []results.Listed) []results.Listed { return append(all, l) })
		return l.Key
	}
}

func objects() []tampering {
	listing := func(change func(f *files, all []results.Listed) []results.Listed) func(f *files) string {
		return func(f *files) string {
			edit(f, results.ListingFile, func(all []results.Listed) []results.Listed { return change(f, all) })
			return used(f, 2).Key
		}
	}
	is := func(key string) func(l *results.Listed) bool {
		return func(l *results.Listed) bool { return l.Key == key }
	}
	put := func(change func(q *history.Request)) func(f *files) string {
		return func(f *files) string {
			key := used(f, 2).Key
			f.requests(func(all []history.Request) []history.Request {
				change(&all[find(f, all, 0, func(q *history.Request) bool {
					return q.Op == history.OpPut && q.Key == key && q.Applied != history.AppliedNo
				})])
				return all
			})
			return key
		}
	}
	again := func(change func(q *history.Request)) func(f *files) string {
		return func(f *files) string {
			key := used(f, 2).Key
			f.requests(func(all []history.Request) []history.Request {
				q := all[find(f, all, 0, func(q *history.Request) bool {
					return q.Op == history.OpPut && q.Key == key && q.Applied == history.AppliedYes
				})]
				q.Seq = uint64(len(all) + 1)
				change(&q)
				return append(all, q)
			})
			return key
		}
	}
	return []tampering{
		{check: "F1", name: "object missing in the listing", do: listing(func(f *files, all []results.Listed) []results.Listed {
			return without(f, all, 0, is(used(f, 2).Key))
		})},
		{check: "F1", name: "object damaged in the store", do: listing(func(f *files, all []results.Listed) []results.Listed {
			all[find(f, all, 0, is(used(f, 2).Key))].CRC32C ^= 1
			return all
		})},
		{check: "F1", name: "only an open upload of the object", also: []string{"F2"}, do: listing(func(f *files, all []results.Listed) []results.Listed {
			all[find(f, all, 0, is(used(f, 2).Key))].Upload = "upload-1"
			return all
		})},
		{check: "F1", name: "object of no checkpoint damaged", do: func(f *files) string {
			key := ""
			listing(func(f *files, all []results.Listed) []results.Listed {
				l := &all[find(f, all, 5, func(l *results.Listed) bool { return strings.HasPrefix(l.Key, checkpoint.EntryPrefix) })]
				l.Bytes++
				key = l.Key
				return all
			})(f)
			return key
		}},
		{check: "F1", name: "object vanished", do: func(f *files) string {
			listing(func(f *files, all []results.Listed) []results.Listed { return without(f, all, 0, is("run")) })(f)
			return "run was put"
		}},
		{check: "F1", name: "never put", do: put(func(q *history.Request) { q.Applied = history.AppliedNo })},
		{check: "F1", name: "put too late", do: put(func(q *history.Request) { q.Duration += time.Minute })},
		{check: "F1", name: "other content put", do: put(func(q *history.Request) { q.CRC32C ^= 1 })},
		{check: "F1", name: "reference with another checksum", do: func(f *files) string {
			key := ""
			edit(f, results.RefsFile, func(all []checkpoint.RefsChange) []checkpoint.RefsChange {
				all[3].Added[0].CRC32C ^= 1
				key = all[3].Added[0].Key
				return all
			})
			return key
		}},
		{check: "F1", name: "deleted before a checkpoint that names it", also: []string{"F5"}, do: again(func(q *history.Request) {
			q.Op, q.Start, q.Duration = history.OpDelete, q.Start+q.Duration, 0
		})},
		{check: "F2", name: "object of nobody", also: []string{"F1"}, do: more(results.Listed{Key: "log/1/worker-0/99999999.seg", Bytes: 10})},
		{check: "F2", name: "upload left open", do: more(results.Listed{Key: "base/1/count-0/9", Upload: "upload-7"})},
		{check: "F4", name: "other content under one key", do: again(func(q *history.Request) { q.CRC32C ^= 1 })},
		{check: "F4", name: "other content, outcome unknown", do: again(func(q *history.Request) { q.Bytes++; q.Applied = history.AppliedUnknown })},
		{check: "F5", name: "retained object deleted", do: again(func(q *history.Request) {
			q.Op, q.Who, q.Start, q.Duration = history.OpDelete, "coordinator-0", time.Hour, 0
		})},
		{check: "F5", name: "deleted before it was dropped", do: func(f *files) string {
			key := ""
			f.requests(func(all []history.Request) []history.Request {
				q := &all[find(f, all, 3, dropped)]
				q.Start -= 100 * time.Microsecond
				key = q.Key
				return all
			})
			return key
		}},
		{check: "F5", name: "deleted before the log said so", do: func(f *files) string {
			// the entry that drops the checkpoint comes a minute later
			var of history.Request
			f.requests(func(all []history.Request) []history.Request {
				of = all[find(f, all, 3, dropped)]
				for _, l := range lines[results.LogLine](f, results.CoordLogFile) {
					if l.Kind == "drop" && l.Checkpoint == of.Checkpoint {
						entry := checkpoint.EntryKey(l.Sequence)
						all[find(f, all, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Key == entry })].Duration += time.Minute
					}
				}
				return all
			})
			return "in the coordinator log only at"
		}},
	}
}

// dropped is a request that removes the metadata of a subsumed checkpoint.
func dropped(q *history.Request) bool {
	return q.Op == history.OpDelete && strings.HasPrefix(q.Key, checkpoint.MetadataPrefix) && q.Cause == "drop" && q.Applied == history.AppliedYes
}

func figures() []tampering {
	row := func(change func(r *results.CheckpointRow)) func(f *files) string {
		return func(f *files) string {
			id := ""
			editRows(f, results.CheckpointsFile, func(all []results.CheckpointRow) []results.CheckpointRow {
				r := &all[find(f, all, 4, func(r *results.CheckpointRow) bool { return r.Status == "completed" })]
				id = r.ID
				change(r)
				return all
			})
			return "checkpoint " + id
		}
	}
	recovery := func(change func(r *results.RecoveryRow)) func(f *files) string {
		return func(f *files) string {
			editRows(f, results.RecoveriesFile, func(all []results.RecoveryRow) []results.RecoveryRow { change(&all[1]); return all })
			return "row 2 of " + results.RecoveriesFile
		}
	}
	event := func(change func(e *history.Event)) func(f *files) string {
		return func(f *files) string {
			id := uint64(0)
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, 4, kind(history.CheckpointCompleted))]
				id = e.Checkpoint
				change(e)
				return all
			})
			return fmt.Sprintf("checkpoint %d", id)
		}
	}
	return []tampering{
		{check: "M1", name: "duration", do: row(func(r *results.CheckpointRow) { r.Duration.Value++ })},
		{check: "M1", name: "status", do: row(func(r *results.CheckpointRow) { r.Status = "aborted" })},
		{check: "M1", name: "full size", do: row(func(r *results.CheckpointRow) { r.Full.Value++ })},
		{check: "M1", name: "checkpointed size", do: row(func(r *results.CheckpointRow) { r.Checkpointed.Value-- })},
		{check: "M1", name: "objects", do: row(func(r *results.CheckpointRow) { r.Objects.Value++ })},
		{check: "M1", name: "trigger", do: row(func(r *results.CheckpointRow) { r.Trigger.Value += 0.1 })},
		{check: "M1", name: "part of the duration", do: row(func(r *results.CheckpointRow) { r.Async.Value += 0.5 })},
		{check: "M1", name: "row repeated", do: func(f *files) string {
			editRows(f, results.CheckpointsFile, func(all []results.CheckpointRow) []results.CheckpointRow { return slices.Insert(all, 3, all[1]) })
			return "or several"
		}},
		{check: "M1", name: "detection", do: recovery(func(r *results.RecoveryRow) { r.Detect.Value++ })},
		{check: "M1", name: "restart", do: recovery(func(r *results.RecoveryRow) { r.Restart.Value++ })},
		{check: "M1", name: "outage", do: recovery(func(r *results.RecoveryRow) { r.Outage.Value++ })},
		{check: "M1", name: "replayed", do: recovery(func(r *results.RecoveryRow) { r.Replayed.Value++ })},
		{check: "M1", name: "restored checkpoint", do: recovery(func(r *results.RecoveryRow) { r.Checkpoint++ })},
		{check: "M1", name: "fault that was not planned", do: recovery(func(r *results.RecoveryRow) { r.ID = "fault-9" })},
		{check: "M1", name: "row missing", do: func(f *files) string {
			editRows(f, results.CheckpointsFile, func(all []results.CheckpointRow) []results.CheckpointRow { return all[1:] })
			return "checkpoints, the history has"
		}},
		{check: "M1", name: "recovery missing", do: func(f *files) string {
			editRows(f, results.RecoveriesFile, func(all []results.RecoveryRow) []results.RecoveryRow { return all[1:] })
			return results.RecoveriesFile
		}},
		{check: "M1", name: "duration in the history", do: event(func(e *history.Event) { e.Dur++ })},
		{check: "M1", name: "sizes in the history", do: event(func(e *history.Event) { e.Sizes.Materialized += 5 })},
		{check: "M1", name: "no sizes", do: event(func(e *history.Event) { e.Sizes = nil })},
	}
}
