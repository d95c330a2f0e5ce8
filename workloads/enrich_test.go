package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

func newTestEnrich(t testing.TB, options string, e Env) *enriching {
	t.Helper()
	if e.MaxParallelism == 0 {
		e.MaxParallelism = 16
	}
	w, err := newEnrich(json.RawMessage(options), e)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*enriching)
}

func TestEnrichMatchesItsModel(t *testing.T) {
	for name, options := range map[string]string{
		"plain":        `{"keys":{"count":100},"disorder":"50us"}`,
		"at-once":      `{"keys":{"count":100},"disorder":"50us","hold":0}`,
		"many-changes": `{"partitions":3,"keys":{"count":60,"pick":"zipf"},"rules":{"count":3,"share":"40%"},"disorder":"200us"}`,
		"no-changes":   `{"keys":{"count":30},"rules":{"count":1,"share":0},"disorder":"20us"}`,
		"in-order":     `{"keys":{"count":30},"rules":{"count":5,"share":"5%"},"disorder":0,"hold":"1ms"}`,
		"same-times":   `{"partitions":3,"keys":{"count":5},"rules":{"count":2,"share":"20%"},"disorder":"1500us"}`,
		"one":          `{"partitions":1,"keys":{"count":1},"values":{"size":"3B"},"rules":{"count":1,"share":"50%"},"disorder":"7us"}`,
	} {
		t.Run(name, func(t *testing.T) {
			mustMatchAnyInterleaving(t, func() Workload {
				return newTestEnrich(t, options, Env{Seed: 7, Total: 2000})
			}, 16, 2000, 4)
		})
	}
}

func TestEnrichWithFewerRecordsThanPartitions(t *testing.T) {
	mustMatchAnyInterleaving(t, func() Workload {
		return newTestEnrich(t, `{"partitions":8,"disorder":0}`, Env{Seed: 1, Total: 5, Rate: 1e6})
	}, 16, 5, 3)
}

// TestEnrichOfAHandfulOfRecords computes by hand what comes of a few records in order: those before the watermark have left.
func TestEnrichOfAHandfulOfRecords(t *testing.T) {
	w := newTestEnrich(t, `{"partitions":1,"keys":{"count":1},"rules":{"count":1,"share":"50%"},"disorder":0}`, Env{Seed: 3, Total: 12, MaxParallelism: 1})
	m := w.Model()
	if err := m.Advance([]int64{10}); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	events, changes := 0, 0
	for i := range int64(10) {
		if w.in.change(w.in.draw(0, i)) {
			changes++
		} else { // the watermark is 10 us, the event time of the next record
			events++
			want = append(want, fmt.Sprint(i))
		}
		if m.OutputHas(0, i, 0) {
			got = append(got, fmt.Sprint(i))
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || events < 2 || changes < 2 {
		t.Errorf("%v left, want %v; %d events, %d changes", got, want, events, changes)
	}
	left := 0
	for _, state := range []string{"pending", "timers"} {
		m.Elements("enrich", state, 0, func([]byte) { left++ })
	}
	if left != 0 {
		t.Errorf("%d elements are left", left)
	}
}

// TestHoldIsNoMatterOfOutput: what is held back comes out later and is the same.
func TestHoldIsNoMatterOfOutput(t *testing.T) {
	outputs := map[string]int{}
	for _, hold := range []string{"0s", "1us", "1h"} {
		w := newTestEnrich(t, fmt.Sprintf(`{"keys":{"count":50},"disorder":"200us","hold":%q}`, hold), Env{Seed: 5, Total: 4000})
		h := newHarness(t, w, 16, func() int { return 3 }, plain)
		for p := range 4 {
			h.read(p, 1000, 4000)
		}
		h.barrier()
		h.mustMatch(w.Model(), 1)
		outputs[fmt.Sprintf("%+v", h.collect.Result().Groups)]++
	}
	if len(outputs) != 1 {
		t.Errorf("%d different outputs", len(outputs))
	}
}

func TestRuleBookIsCanonicalAndForgets(t *testing.T) {
	changes := []ruleChange{{10, 0, 1, 5}, {10, 1, 0, 6}, {20, 0, 2, 7}, {5, 2, 9, 8}}
	a, b := make(ruleBook, 2), make(ruleBook, 2)
	for i := range changes {
		if err := a.add(1, changes[i], 0); err != nil {
			t.Fatal(err)
		}
		if err := b.add(1, changes[len(changes)-1-i], 0); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.encode(), b.encode()) {
		t.Errorf("%v and %v", a, b)
	}
	for at, want := range map[int64]int64{4: 0, 5: 8, 9: 8, 10: 6, 19: 6, 20: 7, 99: 7} {
		if got := a.find(1, at); got.factor != want {
			t.Errorf("at %d the factor is %d, want %d", at, got.factor, want)
		}
	}
	if none := a.find(0, 50); none.index != -1 {
		t.Errorf("rule 0 is %+v", none)
	}
	if err := a.add(1, changes[2], 0); err == nil {
		t.Error("a change came twice")
	}
	if err := a.add(2, changes[2], 0); err == nil {
		t.Error("there is no rule 2")
	}
	a.forget(1, 15)
	c := make(ruleBook, 2)
	if err := c.decode(a.encode()); err != nil || fmt.Sprint(a) != fmt.Sprint(c) || len(a[1]) != 2 || a.find(1, 15).factor != 6 {
		t.Errorf("%v is read as %v, %v", a, c, err)
	}
	if err := c.decode([]byte{1, 2}); err == nil {
		t.Error("half a change is read")
	}
}

// faultyEnrich is the join with a bug.
type faultyEnrich struct {
	*holdingOperator
	early, forgets, drops bool
	n                     int
}

func (f *faultyEnrich) ProcessSecond(ctx context.Context, r *graph.Record, out graph.Collector) error {
	if f.n++; f.drops && f.o.Subtask() == 1 && f.n%4 == 0 {
		return nil
	}
	err := f.holdingOperator.ProcessSecond(ctx, r, out)
	if f.forgets {
		for rule := range f.rules {
			f.rules.forget(uint32(rule), math.MaxInt64)
		}
	}
	return err
}

func (f *faultyEnrich) Process(ctx context.Context, r *graph.Record, out graph.Collector) error {
	err := f.holdingOperator.Process(ctx, r, out)
	if err == nil && f.early {
		if err = f.o.DeleteTimer(r.EventTime + 1); err == nil {
			f.o.State().SetNamespace(nil)
			err = f.OnTimer(ctx, r.EventTime+1, r.Key, out)
		}
	}
	return err
}

// faultyEnriching is the workload with it.
type faultyEnriching struct {
	*enriching
	bug faultyEnrich
}

func (f faultyEnriching) Job() *graph.Job {
	j := f.enriching.Job()
	for i := range j.Nodes {
		if j.Nodes[i].ID == "enrich" {
			j.Nodes[i].Operator = func() graph.Operator {
				bug := f.bug
				bug.holdingOperator = &holdingOperator{enrichOperator: newEnrichOperator(f.shape)}
				return &bug
			}
		}
	}
	return j
}

// TestModelFindsWrongRules plants the bugs that an engine could have: a copy that misses records, a watermark that runs ahead (events leave before
// their rules have come), state that is thrown away too early. Each shows in the output.
func TestModelFindsWrongRules(t *testing.T) {
	for name, bug := range map[string]faultyEnrich{"": {}, "drops": {drops: true}, "early": {early: true}, "forgets": {forgets: true}} {
		w := newTestEnrich(t, `{"keys":{"count":40},"rules":{"count":4,"share":"20%"},"disorder":"100us"}`, Env{Seed: 7, Total: 2000})
		h := newHarness(t, faultyEnriching{w, bug}, 16, func() int { return 2 }, plain)
		for p := range 4 {
			h.read(p, 500, 2000)
			h.barrier()
		}
		h.wait(1 << 40)
		txn, err := h.writer.Precommit(t.Context(), 1)
		if err == nil {
			err = h.collect.Commit(t.Context(), txn)
		}
		m := w.Model()
		if err == nil {
			err = m.Advance(h.positions)
		}
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, g := range h.collect.Result().Groups {
			want[fmt.Sprintf("%d/%d/%s", g.Partition, g.Group, g.Digest)] = true
		}
		differs := false
		m.Output(func(p int, g keygroup.ID, d canon.Digest) {
			differs = differs || !want[fmt.Sprintf("%d/%d/%s", p, g, d)]
		})
		if differs != (name != "") {
			t.Errorf("bug %q: the output differs: %t", name, differs)
		}
	}
}

func TestEnrichOptionsAreStrict(t *testing.T) {
	for options, want := range map[string]string{
		`{"rule":{}}`:                  `option "rule" does not exist; did you mean "rules"?`,
		`{"rules":{"count":0}}`:        "rules.count is 0",
		`{"rules":{"share":"100%"}}`:   "leaves no events",
		`{"keys":{"count":2}}`:         "keys.count is 2",
		`{"values":{"size":"0B"}}`:     "values.size",
		`{"hold":"soon"}`:              "soon",
		`{"disorder":5}`:               "5",
		`{"rules":{"counts":7}}`:       `did you mean "rules.count"?`,
		`{"partitions":0,"hold":"1s"}`: "partitions is 0",
	} {
		if _, err := newEnrich(json.RawMessage(options), Env{MaxParallelism: 8}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", options, err, want)
		}
	}
	if _, err := newEnrich(nil, Env{}); err == nil {
		t.Error("there are no key groups")
	}
}

func TestEnrichOptionsResolveCompletely(t *testing.T) {
	for _, options := range []string{``, `{}`, `{"rules":{"count":3},"hold":0}`} {
		once, err := Enrich().Resolve(json.RawMessage(options))
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := Enrich().Resolve(once); err != nil || string(once) != string(twice) {
			t.Errorf("%s resolves to %s, then to %s, %v", options, once, twice, err)
		}
	}
}

func BenchmarkEnrichModel(b *testing.B) {
	const step = 100_000
	m := newTestEnrich(b, `{"partitions":16,"keys":{"count":100000}}`, Env{Rate: 400_000, MaxParallelism: 128}).Model()
	positions := make([]int64, 16)
	for b.Loop() {
		for p := range positions {
			positions[p] += step / 16
		}
		if err := m.Advance(positions); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(step)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

func BenchmarkEnrichOperator(b *testing.B) {
	for name, options := range map[string]string{
		"held":    `{"partitions":1,"keys":{"count":10000},"disorder":"10ms"}`,
		"at-once": `{"partitions":1,"keys":{"count":10000},"disorder":"10ms","hold":0}`,
	} {
		b.Run(name, func(b *testing.B) {
			w := newTestEnrich(b, options, Env{Rate: 100_000, MaxParallelism: 128})
			h := newHarness(b, w, 128, func() int { return 1 }, inHeap)
			h.read(0, 50_000, math.MaxInt64)
			h.barrier()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				h.read(0, 1, math.MaxInt64)
				if n%1000 == 0 {
					h.barrier()
					h.wait(1 << 30)
				}
			}
		})
	}
}
