package metrics_test

import (
	"math"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

// billed is a phase of 100 s in which requests went to the store, between a fill and what comes after it.
func billed() *metrics.Data {
	prices := plan.Prices{Name: "mine", Write: 1000, Read: 100, Delete: 10, Stored: 30 * 24 * 3600, Sent: 2, Received: 4}
	d := &metrics.Data{Plan: &plan.Plan{World: "real", Store: plan.Store{Prices: &prices}}, Phases: []metrics.Phase{
		{Name: "fill", To: 10, Ended: true}, {Name: "steady", From: 10, To: 110, Records: 500_000, Ended: true}, {Name: "after", From: 110, To: 120, Ended: true}}}
	trace := metrics.NewTrafficReader(d.Phases)
	const gib = 1 << 30
	for _, q := range []history.Request{
		{Start: 5 * time.Second, Op: history.OpPut, Key: "old", Bytes: gib, Applied: history.AppliedYes},                        // paid by fill, lies there for 40 s of steady
		{Start: 20 * time.Second, Op: history.OpGet, Key: "old", Bytes: gib / 2, Cause: "restore", Applied: history.AppliedYes}, // restores are paid for
		{Start: 20 * time.Second, Op: history.OpGet, Key: "old", Bytes: gib, Cause: "audit", Applied: history.AppliedYes},       // the harness's own are not
		{Start: 50 * time.Second, Op: history.OpDelete, Key: "old", Applied: history.AppliedYes},
		{Start: 50 * time.Second, Op: history.OpDelete, Key: "none", Same: true, Applied: history.AppliedYes}, // the same request
		{Start: 55 * time.Second, Op: history.OpList, Count: 2500, Applied: history.AppliedYes},               // three pages
		{Start: 56 * time.Second, Op: history.OpList, Applied: history.AppliedYes},                            // one, though it is empty
		{Start: 60 * time.Second, Op: history.OpPut, Key: "new", Bytes: gib, Applied: history.AppliedYes},     // lies there for 50 s
	} {
		trace.See(&q)
	}
	d.Traffic = trace.Traffic()
	at := results.Some[float64]
	d.Checkpoints = []results.CheckpointRow{{Status: "completed", Phase: "steady", Trigger: at(20), Duration: at(5)}, {Status: "completed", Phase: "steady", Trigger: at(30), Duration: at(5)}}
	return d
}

// TestCostIsWhatAStoreWouldBill: a put and four pages of listings, one read, one delete; a GiB sent, half a GiB received, a GiB stored for 90 s.
func TestCostIsWhatAStoreWouldBill(t *testing.T) {
	const cost = 5.0 + 0.1 + 0.01 + 2 + 2 + 90
	for name, want := range map[string]float64{"cost.perHour": cost * 36, "cost.perCheckpoint": cost / 2, "cost.perMillionRecords": cost * 2} {
		m, err := metrics.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if f := m.Figure(billed(), "steady"); !f.OK() || math.Abs(f.Value-want) > 1e-9*want {
			t.Errorf("%s is %v (%s), want %v", name, f.Value, f.Warning, want)
		}
	}
}

// TestCostWithoutPricesIsOfTheShippedList: a plan that names no prices is billed at the standard ones.
func TestCostWithoutPricesIsOfTheShippedList(t *testing.T) {
	d := billed()
	d.Plan.Store.Prices = nil
	m, err := metrics.Lookup("cost.perHour")
	if err != nil {
		t.Fatal(err)
	}
	want := (5*0.005/1000 + 0.0004/1000 + 90.0/(30*24*3600)*0.023) * 36
	if f := m.Figure(d, "steady"); !f.OK() || math.Abs(f.Value-want) > 1e-9*want {
		t.Errorf("%v (%s), want %v", f.Value, f.Warning, want)
	}
}
