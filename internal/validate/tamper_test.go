package validate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/sinks"
)

// tampering changes one thing in the files of a good run.
type tampering struct {
	check string // that must tell
	name  string
	run   string // whose files; empty: on
	// also are the checks that cannot help to tell too.
	also []string
	// do changes the files and returns what the evidence must name.
	do func(f *files) string
}

// TestOneThingIsWrong tampers with one thing at a time: the check that it belongs to fails with evidence that names it, those
// listed beside may, and nothing else does. H1 and H2 are inconclusive instead, since nothing is known of the system then.
func TestOneThingIsWrong(t *testing.T) {
	all := slices.Concat(assumptions(), states(), orders(), endings(), fences(), objects(), figures(), savepoints(), ownerships())
	seen := map[string]int{}
	for _, c := range all {
		if seen[c.check]++; testing.Short() && seen[c.check] > 1 {
			continue // one of each
		}
		t.Run(c.check+" "+c.name, func(t *testing.T) {
			t.Parallel()
			f := copyOf(t, cmp.Or(c.run, on))
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
		{check: "H2", name: "last requests missing", do: func(f *files) string {
			edit(f, results.ObjectsFile, func(all []history.Request) []history.Request {
				slices.SortFunc(all, func(a, b history.Request) int { return cmp.Compare(a.Seq, b.Seq) })
				return all[:len(all)-3]
			})
			return "the run made"
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

// flipped is another digest of the same length.
func flipped(digest string) string {
	last := byte('0')
	if digest[len(digest)-1] == last {
		last = '1'
	}
	return digest[:len(digest)-1] + string(last)
}
