package validate

import (
	"strings"
	"testing"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// holding is a model of one group of state, and of one state that is held back.
type holding struct{ digest canon.Digest }

func (holding) Advance([]int64) error                               { return nil }
func (holding) Output(func(int, keygroup.ID, canon.Digest))         {}
func (holding) Elements(_, _ string, _ keygroup.ID, _ func([]byte)) {}
func (holding) OutputHas(int, int64, uint8) bool                    { return true }
func (holding) OutputTags() int                                     { return 1 }
func (holding) Timely(_, state string) bool                         { return state == "held" }

func (m holding) Groups(f func(operator, state string, group keygroup.ID, d canon.Digest)) {
	f("join", "totals", 1, m.digest)
}

// TestTimelyStateIsLeftOutNoFurtherThanNeeded: no model says what is in it, but it is empty in the end, all restores of a checkpoint
// find the same in it, and it makes up for nothing that the model has.
func TestTimelyStateIsLeftOutNoFurtherThanNeeded(t *testing.T) {
	var d canon.Digest
	d.Add([]byte("x"))
	totals := history.GroupDigest{Operator: "join", State: "totals", Group: 1, Count: d.Count, Digest: d.String()}
	held := func(n int64, digest string) history.GroupDigest {
		return history.GroupDigest{Operator: "join", State: "held", Group: 1, Count: n, Digest: digest}
	}
	for name, c := range map[string]struct {
		run, audited []history.GroupDigest
		s1, s3       string // in their evidence; empty: they pass
	}{
		"as it should be":          {[]history.GroupDigest{totals, held(0, "")}, []history.GroupDigest{totals, held(0, "")}, "", ""},
		"held at the end":          {[]history.GroupDigest{totals, held(2, "a")}, []history.GroupDigest{totals, held(2, "a")}, "2 elements are held back still", ""},
		"lost by a restore":        {[]history.GroupDigest{totals, held(2, "a")}, []history.GroupDigest{totals, held(0, "")}, "", "another restore of it had 2 with a"},
		"changed by a restore":     {[]history.GroupDigest{totals, held(2, "b")}, []history.GroupDigest{totals, held(2, "a")}, "held back still", "another restore of it had 2 with b"},
		"nothing but what is held": {[]history.GroupDigest{held(2, "a")}, []history.GroupDigest{held(2, "a")}, "nothing was restored", "nothing was restored"},
	} {
		t.Run(name, func(t *testing.T) {
			line := results.RestoreLineOf{Checkpoint: 7, RestoreLine: results.RestoreLine{OK: true}}
			for _, g := range c.audited {
				line.Groups = append(line.Groups, results.GroupLine{Operator: g.Operator, State: g.State, Group: g.Group, Count: g.Count, Digest: g.Digest})
			}
			k := &Case{Complete: true, Restores: []results.RestoreLineOf{line}}
			k.truth = &truth{model: holding{d}, states: map[uint64]map[stateID]canon.Digest{7: {{"join", "totals", 1}: d}}}
			s3 := newRestoredState(k)
			s3.Observe(&history.Event{Kind: history.RestoreDone, Checkpoint: 7, Digests: c.run})
			for _, j := range []struct {
				judge Judge
				want  string
			}{{&finalState{k}, c.s1}, {s3, c.s3}} {
				v := j.judge.Finish()
				if (v.Verdict == results.Pass) != (j.want == "") || !strings.Contains(strings.Join(v.Evidence, "\n"), j.want) {
					t.Errorf("%T: %+v, want %q", j.judge, v, j.want)
				}
			}
		})
	}
}

// TestNoStateButThatOfASavepointIsNoFinalState: what was taken before the end says nothing of the end.
func TestNoStateButThatOfASavepointIsNoFinalState(t *testing.T) {
	k := &Case{Complete: true, truth: &truth{model: holding{}}}
	k.Restores = []results.RestoreLineOf{{Checkpoint: 7, RestoreLine: results.RestoreLine{OK: true, Savepoint: true}}}
	if v := (&finalState{k}).Finish(); v.Verdict != results.Inconclusive {
		t.Errorf("%+v", v)
	}
}

// TestJobThatEndedBeforeItsStepsWereDoneIsNotJudged: nothing that happened was wrong, and nothing is known of the rest.
func TestJobThatEndedBeforeItsStepsWereDoneIsNotJudged(t *testing.T) {
	k := &Case{Plan: plan.Plan{Phases: []plan.Phase{{Steps: []plan.Step{{Savepoint: plan.Native}}}}}}
	if v := newSavepoints(k).Finish(); v.Verdict != results.Inconclusive || !strings.Contains(v.Summary, "0 of 1 planned steps") {
		t.Errorf("%+v", v)
	}
}
