package workloads

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

func newTestWindow(t testing.TB, options string, e Env) *windowing {
	t.Helper()
	if e.MaxParallelism == 0 {
		e.MaxParallelism = 16
	}
	w, err := newWindow(json.RawMessage(options), e)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*windowing)
}

// windowTests are options for sources of one record a microsecond.
func windowTests() map[string]string {
	return map[string]string{
		"tumbling":       `{"keys":{"count":100},"size":"300us","disorder":"50us","watermark":"50us"}`,
		"sliding-shared": `{"keys":{"count":60,"pick":"zipf"},"size":"400us","slide":"100us","keep":"all","disorder":"200us","watermark":"80us","lateness":"20us"}`,
		"sliding-apart": `{"keys":{"count":60,"pick":"zipf"},"size":"400us","slide":"100us","keep":"all","panes":"unshared",
			"disorder":"200us","watermark":"80us","lateness":"20us"}`,
		"late":        `{"keys":{"count":30},"size":"60us","slide":"20us","disorder":"300us","watermark":0,"keep":"none"}`,
		"late-apart":  `{"keys":{"count":30},"size":"60us","slide":"20us","disorder":"300us","watermark":0,"panes":"unshared","late":"drop"}`,
		"patient":     `{"partitions":3,"keys":{"count":30},"size":"70us","slide":"10us","disorder":"100us","watermark":"10us","lateness":"500us"}`,
		"forgetful":   `{"keys":{"count":200,"pick":"zipf"},"size":"50us","disorder":"150us","watermark":"20us","ttl":"200us"}`,
		"on-read":     `{"keys":{"count":200,"pick":"zipf"},"size":"50us","disorder":"150us","watermark":"20us","ttl":"100us","ttlOnRead":true,"panes":"unshared"}`,
		"many":        `{"keys":{"count":20},"size":"1ms","slide":"10us","values":{"size":"3B"},"disorder":"20us","watermark":"30us"}`,
		"one":         `{"partitions":1,"keys":{"count":1},"size":"10us","disorder":0,"watermark":0,"ttl":"1us"}`,
		"fine-grains": `{"partitions":2,"keys":{"count":5},"size":"7us","disorder":"3ns","watermark":"1ns","ttl":"9ns"}`,
	}
}

func TestWindowMatchesItsModel(t *testing.T) {
	for name, options := range windowTests() {
		t.Run(name, func(t *testing.T) {
			mustMatchAnyInterleaving(t, func() Workload {
				return newTestWindow(t, options, Env{Seed: 7, Total: 2000})
			}, 16, 2000, 4)
		})
	}
}

func TestWindowWithFewerRecordsThanPartitions(t *testing.T) {
	mustMatchAnyInterleaving(t, func() Workload {
		return newTestWindow(t, `{"partitions":8,"size":"1us","disorder":0,"watermark":0,"ttl":"1us"}`, Env{Seed: 1, Total: 5, Rate: 1e6})
	}, 16, 5, 3)
}

// outputOf are the records that a model says there are, by key group over all partitions.
func outputOf(t *testing.T, w *windowing, positions []int64) string {
	t.Helper()
	m, all := w.Model(), ""
	if err := m.Advance(positions); err != nil {
		t.Fatal(err)
	}
	m.Output(func(partition int, group keygroup.ID, d canon.Digest) {
		all += fmt.Sprintf("%d/%d %d %v\n", partition, group, d.Count, d)
	})
	return all
}

// TestPanesAreNoMatterOfOutput: sharing panes saves state and writes, and shows in nothing else.
func TestPanesAreNoMatterOfOutput(t *testing.T) {
	options := `{"keys":{"count":50},"size":"300us","slide":"50us","keep":"all","disorder":"200us","watermark":"50us","panes":"%s"}`
	shared := newTestWindow(t, fmt.Sprintf(options, "shared"), Env{Seed: 5, Total: 4000})
	apart := newTestWindow(t, fmt.Sprintf(options, "unshared"), Env{Seed: 5, Total: 4000})
	positions := []int64{1000, 1000, 1000, 1000}
	a, b := outputOf(t, shared, positions), outputOf(t, apart, positions)
	if a != b || a == "" {
		t.Errorf("output differs:\n%s\nand\n%s", a, b)
	}
	elements := func(w *windowing) (n int64) {
		h := newHarness(t, w, 16, func() int { return 2 }, plain)
		for p := range 4 {
			h.read(p, 1000, 4000)
		}
		h.barrier()
		for name, d := range h.digests() { // order-free: a sum
			if strings.HasPrefix(name, "window/elements/") {
				n += d.Count
			}
		}
		return n
	}
	if few, many := elements(shared), elements(apart); many < 3*few || many > 6*few {
		t.Errorf("%d elements in shared panes, %d in six windows each", few, many)
	}
}

// TestWindowsOfAHandfulOfRecords computes by hand what comes of a few records in order.
func TestWindowsOfAHandfulOfRecords(t *testing.T) {
	w := newTestWindow(t, `{"partitions":1,"keys":{"count":1},"size":"4us","slide":"2us","disorder":0,"watermark":0}`, Env{Seed: 3, Total: 7, MaxParallelism: 1})
	m := w.Model()
	if err := m.Advance([]int64{6}); err != nil {
		t.Fatal(err)
	}
	// Records 0 to 5 come at 0 to 5 us and the watermark is 6 us: windows [-2, 2), [0, 4) and [2, 6) are over. Their last
	// records are 1, 3 and 5, which lie in the second pane of each.
	var got []string
	for tag := range m.OutputTags() {
		for i := range int64(6) {
			if m.OutputHas(0, i, uint8(tag)) {
				got = append(got, fmt.Sprintf("%d/%d", i, tag))
			}
		}
	}
	if s := strings.Join(got, " "); s != "1/1 3/1 5/1" {
		t.Errorf("windows end with records and tags %s, want 1/1 3/1 5/1", s)
	}
	left := map[string]int{}
	for _, state := range []string{"pane", "window", "timers", "late"} {
		m.Elements("window", state, 0, func([]byte) { left[state]++ })
	}
	if fmt.Sprint(left) != "map[pane:1 timers:1]" { // pane [4, 6), which window [4, 8) still needs
		t.Errorf("left in the state: %v", left)
	}
}

func TestWindowSourceIsAPureFunctionAndDisorderHasABound(t *testing.T) {
	options := `{"partitions":3,"keys":{"count":90},"disorder":"40us","watermark":"10us"}`
	a, b := newTestWindow(t, options, Env{Seed: 3, Rate: 1e6}).source, newTestWindow(t, options, Env{Seed: 3, Rate: 1e6}).source
	owner := map[string]int32{}
	var x, y graph.Record
	back, late, turned := int64(0), 0, 0
	for p := range a.Partitions() {
		before := int64(0)
		for i := range int64(2000) {
			if _, err := a.Read(p, i, &x); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(p, i, &y); err != nil || fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("record %d of partition %d is read as %v and %v, %v", i, p, x, y, err)
			}
			if was, known := owner[string(x.Key)]; known && was != x.Partition {
				t.Fatalf("key %x is in partitions %d and %d", x.Key, was, x.Partition)
			}
			owner[string(x.Key)] = x.Partition
			due := int64(a.Due(p, i))
			back = max(back, due-x.EventTime)
			if x.EventTime < 0 || x.EventTime > due || due-x.EventTime > 40_000 {
				t.Fatalf("record %d of partition %d is due at %d and from %d", i, p, due, x.EventTime)
			}
			in, err := readWindowRecord(x.Value)
			if w := a.Watermark(p, i); err != nil || in.watermark != w || w > a.Watermark(p, i+1) || w != max(0, due-10_000) {
				t.Fatalf("record %d of partition %d has watermark %d, the source %d, then %d; %v", i, p, in.watermark, w, a.Watermark(p, i+1), err)
			}
			if x.EventTime < in.watermark {
				late++
			}
			if x.EventTime < before {
				turned++
			}
			before = x.EventTime
		}
	}
	if back < 39_900 || late < 4000 || late > 5000 || turned < 2000 {
		t.Errorf("records lie back by up to %d ns, %d before the watermark, %d before the one ahead", back, late, turned)
	}
}

func TestWindowLimitsAddUp(t *testing.T) {
	s := newTestWindow(t, `{"partitions":3}`, Env{}).source
	for _, total := range []int64{0, 1, 2, 3, 1000, math.MaxInt64} {
		if sum := s.Limit(0, total) + s.Limit(1, total) + s.Limit(2, total); sum != total {
			t.Errorf("limits of %d records add up to %d", total, sum)
		}
	}
}

// faultyWindow is a window operator with a bug.
type faultyWindow struct {
	windowOperator
	twice  bool // emits windows twice
	revive bool // keeps sessions that are over
}

func (f *faultyWindow) OnTimer(ctx context.Context, at int64, key []byte, out graph.Collector) error {
	if !f.twice {
		return f.windowOperator.OnTimer(ctx, at, key, out)
	}
	return f.windowOperator.OnTimer(ctx, at, key, doubled{out})
}

func (f *faultyWindow) Open(ctx context.Context, o graph.OperatorContext) (err error) {
	if err = f.windowOperator.Open(ctx, o); err == nil && f.revive {
		f.session, err = backend.NewValue(o.State(), "session", backend.Int64{}, backend.WithTTL(backend.TTL{After: time.Hour}))
	}
	return err
}

type doubled struct{ graph.Collector }

func (d doubled) Collect(r *graph.Record) error {
	if err := d.Collector.Collect(r); err != nil {
		return err
	}
	return d.Collector.Collect(r)
}

// TestModelFindsWhatFiresTwiceOrComesBack plants the bugs that check S6 of a run would be about: the model tells them by
// output and state alone.
func TestModelFindsWhatFiresTwiceOrComesBack(t *testing.T) {
	options := `{"keys":{"count":40},"size":"50us","disorder":"50us","watermark":"50us","ttl":"100us"}`
	for _, c := range []struct {
		bug           faultyWindow
		state, output bool // where it shows
	}{{}, {bug: faultyWindow{twice: true}, output: true}, {bug: faultyWindow{revive: true}, state: true}} {
		w := newTestWindow(t, options, Env{Seed: 7, Total: 2000})
		h := newHarness(t, faulty{w, c.bug}, 16, func() int { return 2 }, plain)
		for p := range 4 {
			h.read(p, 500, 2000)
			h.barrier()
		}
		m := w.Model()
		if err := m.Advance(h.positions); err != nil {
			t.Fatal(err)
		}
		want := map[string]canon.Digest{}
		m.Groups(func(operator, state string, group keygroup.ID, d canon.Digest) {
			want[fmt.Sprintf("%s/%s/%d", operator, state, group)] = d
		})
		if differs := !maps.Equal(h.digests(), want); differs != c.state {
			t.Errorf("twice %t, revive %t: state differs: %t", c.bug.twice, c.bug.revive, differs)
		}
		txn, err := h.writer.Precommit(t.Context(), 1)
		if err == nil {
			err = h.collect.Commit(t.Context(), txn)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := h.collect.Result(); r.DuplicateCount > 0 != c.output || r.Records == 0 {
			t.Errorf("twice %t, revive %t: %d records, %d duplicates", c.bug.twice, c.bug.revive, r.Records, r.DuplicateCount)
		}
	}
}

// faulty is windows with a bug in the operator.
type faulty struct {
	*windowing
	bug faultyWindow
}

func (f faulty) Job() *graph.Job {
	j := f.windowing.Job()
	j.Nodes[1].Operator = func() graph.Operator {
		bug := f.bug
		bug.windowOperator = windowOperator{shape: f.shape}
		return &bug
	}
	return j
}

func TestWindowOptionsAreStrict(t *testing.T) {
	for options, want := range map[string]string{
		`{"sise":"1s"}`:                   `option "sise" does not exist; did you mean "size"?`,
		`{"size":"10s","slide":"3s"}`:     "slide is 3s, of which size (10s) must be a multiple",
		`{"size":"10s","slide":"10ms"}`:   "at most 100 times as long",
		`{"size":0}`:                      "size must be positive",
		`{"panes":"both"}`:                "panes is",
		`{"keep":"some"}`:                 "keep is",
		`{"late":"later"}`:                "late is",
		`{"ttlOnRead":true}`:              "needs a ttl",
		`{"keys":{"count":2}}`:            "keys.count is 2",
		`{"values":{"size":"0B"}}`:        "values.size",
		`{"keys":{"hotset":{}},"size":0}`: "needs pick: zipf",
	} {
		if _, err := newWindow(json.RawMessage(options), Env{MaxParallelism: 8}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", options, err, want)
		}
	}
}

func TestWindowOptionsResolveCompletely(t *testing.T) {
	for _, options := range []string{``, `{}`, `{"size":"4s","slide":"1s","ttl":"2m"}`} {
		once, err := Window().Resolve(json.RawMessage(options))
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := Window().Resolve(once); err != nil || string(once) != string(twice) {
			t.Errorf("%s resolves to %s, then to %s, %v", options, once, twice, err)
		}
	}
}

func BenchmarkWindowModel(b *testing.B) {
	const step = 100_000
	m := newTestWindow(b, `{"partitions":16,"keys":{"count":100000},"size":"1s","slide":"100ms"}`, Env{Rate: 400_000, MaxParallelism: 128}).Model()
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

func BenchmarkWindowOperator(b *testing.B) {
	for name, options := range map[string]string{
		"tumbling":  `{"partitions":1,"keys":{"count":10000},"size":"1s"}`,
		"shared":    `{"partitions":1,"keys":{"count":10000},"size":"1s","slide":"100ms"}`,
		"unshared":  `{"partitions":1,"keys":{"count":10000},"size":"1s","slide":"100ms","panes":"unshared"}`,
		"forgetful": `{"partitions":1,"keys":{"count":10000},"size":"1s","ttl":"2s"}`,
	} {
		b.Run(name, func(b *testing.B) {
			w := newTestWindow(b, options, Env{Rate: 100_000, MaxParallelism: 128})
			h := newHarness(b, w, 128, func() int { return 1 }, inHeap)
			h.read(0, 200_000, math.MaxInt64)
			h.barrier()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				h.read(0, 1, math.MaxInt64)
				if n%1000 == 0 {
					h.barrier()
				}
			}
		})
	}
}
