package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/sinks"
)

// tampering changes one thing in the files of a good run.
type tampering struct {
	check string // that must tell
	name  string
	// also are the checks that cannot help to tell too.
	also []string
	// do changes the files and returns what the evidence must name.
	do func(f *files) string
}

// TestOneThingIsWrong tampers with one thing at a time: the check that it belongs to fails with evidence that names it, those
// listed beside may, and nothing else does. H1 and H2 are inconclusive instead, since nothing is known of the system then.
func TestOneThingIsWrong(t *testing.T) {
	all := slices.Concat(assumptions(), states(), orders(), endings(), fences(), objects(), figures())
	seen := map[string]int{}
	for _, c := range all {
		if seen[c.check]++; testing.Short() && seen[c.check] > 1 {
			continue // one of each
		}
		t.Run(c.check+" "+c.name, func(t *testing.T) {
			t.Parallel()
			f := copyOf(t, on)
			names := c.do(f)
			verdicts, err := f.judge()
			f.must(err)
			for id, v := range verdicts {
				want := results.Pass
				switch {
				case id == c.check && id[0] == 'H':
					want = results.Inconclusive
				case id == c.check:
					want = results.Fail
				case slices.Contains(c.also, id):
					continue
				}
				if v.Verdict != want {
					t.Errorf("%s %s, want %s: %s", id, v.Verdict, want, v.Summary)
				}
			}
			v := verdicts[c.check]
			if text := v.Summary + "\n" + strings.Join(v.Evidence, "\n"); !strings.Contains(text, names) {
				t.Errorf("the evidence does not name %q:\n%s", names, text)
			}
		})
	}
	for _, c := range catalogIDs() {
		if seen[c] == 0 {
			t.Errorf("there is no bad case for %s", c)
		}
	}
}

func assumptions() []tampering {
	remove := func(k history.Kind, nth int) func(f *files) string {
		return func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				e := all[find(f, all, nth, kind(k))]
				name = e.Fault + e.Phase
				return without(f, all, nth, kind(k))
			})
			return name
		}
	}
	end := func(change func(e *history.Event)) func(f *files) string {
		return func(f *files) string {
			f.events(func(all []history.Event) []history.Event { change(&all[len(all)-1]); return all })
			return "ended"
		}
	}
	return []tampering{
		{check: "H1", name: "fault without effect", do: remove(history.FaultHit, 1)},
		{check: "H1", name: "fault not healed", do: remove(history.FaultHealed, 2)},
		{check: "H1", name: "phase not carried through", do: remove(history.PhaseEnd, 1)},
		{check: "H1", name: "rescale not done", do: func(f *files) string { remove(history.RescaleDone, 0)(f); return "0 of 1 planned rescales" }},
		{check: "H1", name: "traffic missed", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				for i := range all {
					if all[i].Kind == history.PhaseEnd {
						all[i].Records = min(all[i].Records, 1000)
					}
				}
				return all
			})
			return "1000 source records"
		}},
		{check: "H2", name: "event removed", do: func(f *files) string {
			edit(f, results.HistoryFile, func(all []history.Event) []history.Event {
				return without(f, all, 3, kind(history.SinkPrecommitted))
			})
			return "follows event"
		}},
		{check: "H2", name: "event told twice", do: func(f *files) string {
			edit(f, results.HistoryFile, func(all []history.Event) []history.Event {
				i := find(f, all, 3, kind(history.SinkPrecommitted))
				return slices.Insert(all, i, all[i])
			})
			return "follows event"
		}},
		{check: "H2", name: "clock goes back", do: func(f *files) string {
			at := time.Duration(0)
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, 4, kind(history.SinkCommitted))
				all[i].At = all[i-1].At - 1
				at = all[i].At
				return all
			})
			return at.String()
		}},
		{check: "H2", name: "no beginning", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event { return all[1:] })
			return "begins with"
		}},
		{check: "H2", name: "no end", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event { return all[:len(all)-1] })
			return "no end"
		}},
		{check: "H2", name: "ended with an error", do: end(func(e *history.Event) { e.Error = "disk full" })},
		{check: "H2", name: "interrupted", do: end(func(e *history.Event) { e.Reason = "interrupted" })},
		{check: "H2", name: "request removed", do: func(f *files) string {
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
				return without(f, all, 5, func(q *history.Request) bool { return q.Op == history.OpGet })
			})
			return "highest sequence number"
		}},
	}
}

// group changes the digest of one group of a retained checkpoint, of the nth retained one.
func group(nth int, change func(g *results.GroupLine)) func(f *files) string {
	return func(f *files) string {
		id, name := f.retained(), ""
		edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
			g := all[find(f, all, 2, func(l *results.StateLine) bool { return l.Group != nil && l.Checkpoint == id[nth] })]
			change(g.Group)
			name = fmt.Sprintf("checkpoint %d, %s/%s, key group %d", g.Checkpoint, g.Group.Operator, g.Group.State, g.Group.Group)
			return all
		})
		return name
	}
}

// restoredBy finds a subtask's restore with digests.
func restoredBy(f *files, all []history.Event, nth int) int {
	return find(f, all, nth, func(e *history.Event) bool { return e.Kind == history.RestoreDone && len(e.Digests) > 1 })
}

func states() []tampering {
	inRun := func(change func(e *history.Event)) func(f *files) string {
		return func(f *files) string {
			attempt := uint64(0)
			f.events(func(all []history.Event) []history.Event {
				e := &all[restoredBy(f, all, -1)]
				change(e)
				attempt = e.Attempt
				return all
			})
			return fmt.Sprintf("attempt %d", attempt)
		}
	}
	output := func(change func(o *sinks.Result) string) func(f *files) string {
		return func(f *files) string {
			var o sinks.Result
			f.must(results.ReadJSON(f.run.Path(results.OutputFile), &o))
			names := change(&o)
			f.must(results.WriteJSON(f.run.Path(results.OutputFile), o))
			return names
		}
	}
	return []tampering{
		{check: "S1", name: "final state differs", also: []string{"S3"}, do: group(2, func(g *results.GroupLine) { g.Digest = flipped(g.Digest) })},
		{check: "S1", name: "element too many", also: []string{"S3"}, do: group(2, func(g *results.GroupLine) { g.Count++ })},
		{check: "S1", name: "group missing", also: []string{"S3"}, do: func(f *files) string {
			last := f.retained()[2]
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				return without(f, all, 0, func(l *results.StateLine) bool { return l.Group != nil && l.Checkpoint == last })
			})
			return "nothing was restored"
		}},
		{check: "S2", name: "duplicate", do: output(func(o *sinks.Result) string {
			o.DuplicateCount, o.Duplicates = 1, []sinks.Identity{{Partition: 2, Index: 17}}
			return "2/17/0"
		})},
		{check: "S2", name: "record lost", do: output(func(o *sinks.Result) string {
			o.Groups[3].Count--
			return fmt.Sprintf("source partition %d, key group %d", o.Groups[3].Partition, o.Groups[3].Group)
		})},
		{check: "S2", name: "record changed", do: output(func(o *sinks.Result) string {
			o.Groups[0].Digest = flipped(o.Groups[0].Digest)
			return o.Groups[0].Digest
		})},
		{check: "S2", name: "nothing of a group", do: output(func(o *sinks.Result) string { o.Groups = o.Groups[1:]; return "nothing committed" })},
		{check: "S2", name: "stray", do: output(func(o *sinks.Result) string { o.Strays = 1; return "cannot exist" })},
		{check: "S2", name: "left open", do: output(func(o *sinks.Result) string {
			o.Pending, o.PendingRecords = 1, 4
			return "4 records lie in 1 transactions"
		})},
		{check: "S3", name: "older checkpoint differs", do: group(0, func(g *results.GroupLine) { g.Digest = flipped(g.Digest) })},
		{check: "S3", name: "restore in the run differs", do: func(f *files) string {
			id := uint64(0)
			inRun(func(e *history.Event) { e.Digests[1].Digest, id = flipped(e.Digests[1].Digest), e.Checkpoint })(f)
			return fmt.Sprintf("checkpoint %d", id)
		}},
		{check: "S3", name: "metadata has other positions", do: func(f *files) string {
			edit(f, results.StatesFile, func(all []results.StateLine) []results.StateLine {
				all[find(f, all, 1, func(l *results.StateLine) bool { return l.Restore != nil })].Restore.Positions[1]--
				return all
			})
			return fmt.Sprintf("checkpoint %d has the source positions", f.retained()[1])
		}},
		{check: "S3", name: "restored what never completed", also: []string{"S5", "O2", "C2", "F1"}, do: inRun(func(e *history.Event) { e.Checkpoint = 999 })},
		{check: "S5", name: "group restored by nobody", do: inRun(func(e *history.Event) { e.Digests = e.Digests[1:] })},
		{check: "S5", name: "ranges overlap", do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, -1, func(e *history.Event) bool {
					return e.Kind == history.RestoreBegin && len(e.Ranges) == 1 && e.Ranges[0].From > 0
				})]
				e.Ranges[0].From--
				name = fmt.Sprintf("key group %d of operator", e.Ranges[0].From)
				return all
			})
			return name
		}},
		{check: "S5", name: "range with a gap", also: []string{}, do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				e := &all[find(f, all, 0, func(e *history.Event) bool { return e.Kind == history.RestoreBegin && len(e.Ranges) == 1 })]
				e.Ranges[0].To--
				return all
			})
			return "has 0 owners"
		}},
		{check: "S5", name: "key restored by another", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				i := restoredBy(f, all, -1)
				e := &all[i]
				other := find(f, all, 0, func(o *history.Event) bool {
					return o.Kind == history.RestoreDone && o.Attempt == e.Attempt && o.Actor != e.Actor && len(o.Digests) > 0 && o.Digests[0].Operator == e.Digests[0].Operator
				})
				all[other].Digests = append(all[other].Digests, e.Digests[0])
				e.Digests = e.Digests[1:]
				return all
			})
			return "does not own"
		}},
	}
}

func orders() []tampering {
	return []tampering{
		{check: "O1", name: "range skipped", do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, 9, kind(history.SourceRange))
				name = fmt.Sprintf("attempt %d: partition %d emitted [%d", all[i].Attempt, all[i].Partition, all[i].From+1)
				all[i].From++
				return all
			})
			return name
		}},
		{check: "O1", name: "range repeated", do: func(f *files) string {
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, 9, kind(history.SourceRange))
				return slices.Insert(all, i, all[i])
			})
			return "although it stood at"
		}},
		{check: "O2", name: "replayed from one before", do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				s := &all[find(f, all, -1, kind(history.SourceStarted))]
				r := &all[find(f, all, 0, func(e *history.Event) bool {
					return e.Kind == history.SourceRange && e.Attempt == s.Attempt && e.Partition == s.Partition
				})]
				s.From, r.From = s.From-1, r.From-1
				name = fmt.Sprintf("attempt %d: partition %d began at %d", s.Attempt, s.Partition, s.From)
				return all
			})
			return name
		}},
		{check: "O2", name: "partition never began", do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, -1, kind(history.SourceStarted))
				attempt, partition := all[i].Attempt, all[i].Partition
				name = fmt.Sprintf("attempt %d never began partition %d", attempt, partition)
				return slices.DeleteFunc(all, func(e history.Event) bool {
					return e.Attempt == attempt && e.Partition == partition && (e.Kind == history.SourceStarted || e.Kind == history.SourceRange)
				})
			})
			return name
		}, also: []string{"S1", "S2", "S3"}}, // no source reached what the last checkpoints say
		{check: "C1", name: "ids swapped", also: []string{"C2", "M1"}, do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				a, b := find(f, all, 1, kind(history.CheckpointTriggered)), find(f, all, 2, kind(history.CheckpointTriggered))
				all[a].Checkpoint, all[b].Checkpoint = all[b].Checkpoint, all[a].Checkpoint
				name = fmt.Sprintf("checkpoint %d was triggered after %d", all[b].Checkpoint, all[a].Checkpoint)
				return all
			})
			return name
		}},
		{check: "C1", name: "id used again", also: []string{"M1"}, do: func(f *files) string {
			name := ""
			f.events(func(all []history.Event) []history.Event {
				i := find(f, all, 3, kind(history.CheckpointTriggered))
				name = fmt.Sprintf("checkpoint %d was triggered after %d", all[i].Checkpoint, all[i].Checkpoint)
				return slices.Insert(all, i, all[i])
			})
			return name
		}},
	}
}

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
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
				q := all[find(f, all, 0, func(q *history.Request) bool { return q.Op == history.OpPut && q.Who == dead.Actor && q.Attempt == 1 })]
				q.Seq, q.Start = uint64(len(all)+1), dead.At+time.Second
				return append(all, q)
			})
			return "by " + dead.Actor
		}},
		{check: "C4", name: "upload goes on after its worker's death", do: func(f *files) string {
			name := ""
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
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
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
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
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
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
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
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
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
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

// flipped is another digest of the same length.
func flipped(digest string) string {
	last := byte('0')
	if digest[len(digest)-1] == last {
		last = '1'
	}
	return digest[:len(digest)-1] + string(last)
}
