package run_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// TestLogBytesAddUp: in a run whose log is put again, hedged and discarded, the figures by cause make up what the trace says was put,
// and what was discarded was in no checkpoint that completed.
func TestLogBytesAddUp(t *testing.T) {
	p := short(t, "sim", "mem")
	p.Backend.Changelog.Upload = plan.Upload{HedgeAfter: seconds(0.03), HedgeShare: 1}
	p.Faults[0].With = json.RawMessage(`{"op":"put","prefix":"log/","delay":"5ms","jitter":"100ms"}`)
	p.Faults[1] = plan.Fault{ID: "errors", Kind: "store-errors", Phase: "chaos", Where: "store", With: json.RawMessage(`{"op":"put","prefix":"log/","share":"40%","status":503}`),
		At: plan.Trigger{Phase: "start"}, For: seconds(0.8)}
	p.Faults = append(p.Faults, plan.Fault{ID: "lost", Kind: "lost-ack", Phase: "warm", Where: "store", With: json.RawMessage(`{"op":"put","prefix":"log/","share":"50%"}`),
		At: plan.Trigger{Phase: "start"}, For: seconds(0.4)})
	rd := carryOut(t, p)
	d, err := metrics.Read(rd)
	if err != nil {
		t.Fatal(err)
	}
	var sum metrics.LogTraffic
	for _, ph := range d.Phases {
		l := d.Traffic[ph.Name].Log
		sum.First, sum.Retried, sum.Hedged, sum.Discarded = sum.First+l.First, sum.Retried+l.Retried, sum.Hedged+l.Hedged, sum.Discarded+l.Discarded
	}
	if sum.First == 0 || sum.Retried == 0 || sum.Hedged == 0 || sum.Discarded == 0 {
		t.Errorf("%+v: nothing to add up", sum)
	}
	named := map[string]bool{}
	for _, c := range lines[checkpoint.RefsChange](t, rd, results.RefsFile) {
		for _, o := range c.Added {
			named[o.Key] = true
		}
	}
	var put, discarded int64
	sizes := map[string]int64{}
	for _, q := range lines[history.Request](t, rd, results.ObjectsFile) {
		switch {
		case !strings.HasPrefix(q.Key, "log/") || q.Who == "run" || !slices.ContainsFunc(d.Phases, func(p metrics.Phase) bool { return q.Start.Seconds() >= p.From && q.Start.Seconds() <= p.To }):
		case q.Op == history.OpPut:
			put += q.Bytes
			if q.Applied != history.AppliedNo {
				sizes[q.Key] = q.Bytes
			}
		case q.Op == history.OpDelete && strings.HasPrefix(q.Who, "worker-"):
			if named[q.Key] {
				t.Errorf("%s was deleted by %s, and is part of a completed checkpoint", q.Key, q.Who)
			}
			discarded += sizes[q.Key]
			delete(sizes, q.Key)
		}
	}
	if sum.Put() != put || sum.Discarded != discarded {
		t.Errorf("%+v, want %d put and %d discarded", sum, put, discarded)
	}
	ended := map[string]int{}
	for _, e := range lines[history.Event](t, rd, results.HistoryFile) {
		if e.Kind == history.LogHedged {
			ended[e.Reason]++
		}
	}
	if ended["won"] == 0 || ended["lost"] == 0 {
		t.Errorf("second attempts: %v", ended)
	}
}

// TestLogBlockIsSplit: in a run whose workers have less room for the log than they need, both parts of the time in which
// subtasks are held up are measured, and they make up the whole; so are the bytes in flight and the age of the log.
func TestLogBlockIsSplit(t *testing.T) {
	p := short(t, "sim", "mem")
	p.Workers.Count, p.Workers.Slots, p.Job.Parallelism = 2, 3, 3
	p.Backend.Changelog.Preemptive, p.Backend.Changelog.InFlight = 1000, 6000
	p.Faults = p.Faults[:1]
	rd := carryOut(t, p)
	rows, err := results.ReadCSV[results.SeriesRow](rd.Path(results.SeriesFile))
	if err != nil {
		t.Fatal(err)
	}
	var blocked, hard, flight, age float64
	for _, r := range rows {
		if !r.LogHard.Set || r.LogHard.Value > r.LogBlocked+1e-6 || r.InFlight.Value > float64(r.Unsent) {
			t.Errorf("%+v", r)
		}
		blocked, hard, flight, age = blocked+r.LogBlocked, hard+r.LogHard.Value, flight+r.InFlight.Value, max(age, r.LogAge.Value)
	}
	if hard == 0 || blocked-hard < 1e-3 || flight == 0 || age < 100 || age > 3000 {
		t.Errorf("blocked %v, of which hard %v; %v bytes in flight, age %v ms", blocked, hard, flight, age)
	}
}
