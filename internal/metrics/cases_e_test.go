package metrics_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"
)

// set gives all figures of a row the value v and leaves words alone.
func set(row any, v float64) {
	r := reflect.ValueOf(row).Elem()
	for i := range r.NumField() {
		switch f := r.Field(i); f.Kind() {
		case reflect.Struct:
			f.Set(reflect.ValueOf(results.Some(v)))
		case reflect.Float64:
			f.SetFloat(v)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(v))
		}
	}
}

// TestE12EachCheckpointMetricFollowsItsColumn (docs/known-faults.md): a source that only ever says 0 shows in every metric of checkpoints.
func TestE12EachCheckpointMetricFollowsItsColumn(t *testing.T) {
	data := func(v float64) *metrics.Data {
		d := made()
		d.Checkpoints = nil
		for range 1200 {
			c := results.CheckpointRow{ID: "1", Status: "completed", Phase: "p"}
			set(&c, v)
			d.Checkpoints = append(d.Checkpoints, c)
		}
		return d
	}
	full, empty, n := data(7), data(0), 0
	for _, m := range metrics.All() {
		if !strings.HasPrefix(m.Name, "checkpoint.") {
			continue
		}
		n++
		if f, z := m.Figure(full, "p"), m.Figure(empty, "p"); !f.OK() || !z.OK() || f.Value < 7 || z.Value != 0 {
			t.Errorf("%s is %+v, of zeros %+v", m.Name, f, z)
		}
	}
	if n < 60 {
		t.Errorf("%d metrics of checkpoints", n)
	}
}

// TestE09MetadataRequestsAreCounted (docs/known-faults.md): requests for metadata objects and the coordinator log are figures of their own, and part of all.
func TestE09MetadataRequestsAreCounted(t *testing.T) {
	d := made() // 30 completed checkpoints
	trace := metrics.NewTrafficReader(d.Phases)
	for i := range 30 {
		at := 11*time.Second + time.Duration(i)*time.Millisecond
		for _, q := range []history.Request{
			{Op: history.OpPut, Key: fmt.Sprint("meta/", i), Bytes: 70, Cause: "meta"}, {Op: history.OpPut, Key: fmt.Sprint("coord/", i), Bytes: 20, Cause: "coord"},
			{Op: history.OpPut, Key: fmt.Sprint("log/", i), Bytes: 1000, Cause: "log"}, {Op: history.OpGet, Key: "meta/1", Bytes: 70, Cause: "restore"},
		} {
			q.Start, q.Applied = at, history.AppliedYes
			trace.See(&q)
		}
	}
	d.Traffic = trace.Traffic()
	for name, want := range map[string]float64{"metadata.requestsPerCheckpoint": 2, "metadata.bytesPerCheckpoint": 90, "requestsPerCheckpoint": 3, "bytesPerCheckpoint": 1090} {
		m, err := metrics.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if f := m.Figure(d, "p"); !f.OK() || f.Value != want {
			t.Errorf("%s is %+v, want %v", name, f, want)
		}
	}
}

// TestE10CheckpointsASecond (docs/known-faults.md): there is such a figure, and its description says that the interval bounds it.
func TestE10CheckpointsASecond(t *testing.T) {
	m, err := metrics.Lookup("checkpoints.perSecond")
	if err != nil {
		t.Fatal(err)
	}
	d := made() // 30 in ten seconds
	if f := m.Figure(d, "p"); !f.OK() || f.Value != 3 || !m.Timed() || !strings.Contains(m.About, "interval") {
		t.Errorf("%+v of %+v", f, m)
	}
}

// TestE03WhatWasSentBeforeCounts (docs/known-faults.md): a checkpoint that stores little itself still shows all that was put for it, early uploads and
// materializations included, and what lies in the store.
func TestE03WhatWasSentBeforeCounts(t *testing.T) {
	d := made() // 100 bytes first stored by each of 30 checkpoints
	for name, want := range map[string]float64{"checkpoint.checkpointed.p50": 100, "bytesPerCheckpoint": 900, "requestsPerCheckpoint": 3,
		"storedBytes.max": 5000, "amplification": 8} {
		d.Traffic["p"] = &metrics.Traffic{Requests: 90, Written: 27_000, StoredMax: 5000, StoredEnd: 4000}
		m, err := metrics.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if f := m.Figure(d, "p"); !f.OK() || f.Value != want {
			t.Errorf("%s is %+v, want %v", name, f, want)
		}
	}
}
