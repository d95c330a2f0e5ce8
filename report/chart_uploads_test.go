package report

import (
	"testing"
	"time"

	"statebench.dev/bench/internal/history"
)

// TestUploadsAreOfTheLogAndUndisturbed: a point a class of sizes with enough puts; other puts, failed and disturbed ones are none of it.
func TestUploadsAreOfTheLogAndUndisturbed(t *testing.T) {
	tr := traffic{uploads: map[int]*uploads{}}
	put := func(cause string, bytes int64, took time.Duration, change func(q *history.Request)) {
		q := history.Request{Op: history.OpPut, Cause: cause, Bytes: bytes, Duration: took}
		if change != nil {
			change(&q)
		}
		tr.upload(&q)
	}
	for i := range 6 {
		put(causeLog, 1000, time.Duration(i+1)*time.Millisecond, nil)
		put(causeHedge, 3000, 6*time.Millisecond, nil)
		put("base", 1000, time.Second, nil)
		put(causeLog, 1000, time.Second, func(q *history.Request) { q.Error = "refused" })
		put(causeLog, 1000, time.Second, func(q *history.Request) { q.Injected = true })
		put(causeLog, 1000, time.Second, func(q *history.Request) { q.Open = true })
		put(causeLog, 1000, time.Second, func(q *history.Request) { q.Op = history.OpGet })
	}
	put(causeLog, 1<<20, time.Second, nil) // one alone is no point
	a := &arm{runs: []*Run{{traffic: tr}, {traffic: tr}}}
	took, speed, all := a.uploadCurve()
	if all != 26 || len(took) != 2 || took[0].x != 1000 || took[1].x != 3000 {
		t.Fatalf("%d puts, %v, %v", all, took, speed)
	}
	near := func(got, want float64) bool { return got > 0.99*want && got < 1.01*want }
	if !near(took[0].y, 3) || !near(took[1].y, 6) || !near(speed[0].y, 1000/0.003) || !near(speed[1].y, 500_000) {
		t.Errorf("%v, %v", took, speed)
	}
}
