package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/results"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Causes of requests that have no part in writing checkpoints.
const (
	causeAudit   = "audit"
	causeRestore = "restore"
	causeRun     = "run"
)

// traffic is what the object trace says about a run.
type traffic struct {
	rows []trafficRow // sorted by cause and operation
	// puts are the durations in microseconds of successful puts of state that no fault touched.
	puts *hdrhistogram.Histogram
	// uploads are the puts of segments of the log, by class of their size.
	uploads map[int]*uploads
}

// trafficRow is a line of the table of requests.
type trafficRow struct {
	cause, op                                            string
	count, bytes, errors, injected, throttled, ambiguous int64
}

// maxMicros is the longest request that is told apart: an hour.
const maxMicros = 3_600_000_000

func (r *Run) loadObjects(path string) error {
	type key struct{ cause, op string }
	rows := map[key]*trafficRow{}
	t := &r.traffic
	t.puts, t.uploads = hdrhistogram.New(1, maxMicros, 3), map[int]*uploads{}
	sums := metrics.NewTrafficReader(r.data.Phases)
	err := eachLine(path, func(q *history.Request) {
		k := key{q.Cause, q.Op}
		if q.Log {
			k.cause += " (not the store)"
		}
		row := rows[k]
		if row == nil {
			row = &trafficRow{cause: k.cause, op: q.Op}
			rows[k] = row
		}
		if !q.Same {
			row.count++
		}
		row.bytes += q.Bytes
		if q.Error != "" {
			row.errors++
		}
		if q.Injected {
			row.injected++
		}
		if q.Throttled && !q.Injected {
			row.throttled++
		}
		if q.Applied == history.AppliedUnknown {
			row.ambiguous++
		}
		r.time(q)
		t.upload(q)
		sums.See(q)
	})
	r.data.Traffic = sums.Traffic()
	t.rows = nil
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b key) int {
		return cmp.Or(strings.Compare(a.cause, b.cause), strings.Compare(a.op, b.op))
	}) {
		t.rows = append(t.rows, *rows[k])
	}
	return err
}

// time adds the duration of a put of state that no fault touched.
func (r *Run) time(q *history.Request) {
	switch q.Cause {
	case causeAudit, causeRestore, causeRun:
		return
	}
	if q.Op == history.OpPut && !q.Log && q.Error == "" && !q.Injected && !q.Open && q.Duration >= 0 {
		_ = r.traffic.puts.RecordValue(min(q.Duration.Microseconds(), maxMicros)) // it is in range
	}
}

// stored is what the verify phase found in the store.
type stored struct {
	listed   bool
	prefixes []prefixRow // sorted
	uploads  int64       // open multipart uploads
	bad      int64       // objects that could not be read
	retained []retainedRow
}

type prefixRow struct {
	prefix      string
	count, size int64
}

// retainedRow is a checkpoint that was there to be restored at the end.
type retainedRow struct {
	id          uint64
	ok          bool
	err         string
	parallelism int
	objects     int
	bytes       int64
	groups      int   // key groups with elements, over all states
	elements    int64 // in them
	differing   int   // groups that differ from the model
}

func (r *Run) loadListing(path string) error {
	sums := map[string]*prefixRow{}
	err := eachLine(path, func(l *results.Listed) {
		if l.Upload != "" {
			r.stored.uploads++
			return
		}
		if l.Error != "" {
			r.stored.bad++
		}
		prefix, _, ok := strings.Cut(l.Key, "/")
		if ok {
			prefix += "/"
		}
		p := sums[prefix]
		if p == nil {
			p = &prefixRow{prefix: prefix}
			sums[prefix] = p
		}
		p.count++
		p.size += l.Bytes
	})
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		r.stored.prefixes = append(r.stored.prefixes, *sums[k])
	}
	r.stored.listed = err == nil
	return err
}

func (r *Run) loadStates(path string) error {
	s := &r.stored
	return eachLine(path, func(l *results.StateLine) {
		switch n := len(s.retained); {
		case l.Restore != nil:
			row := retainedRow{id: l.Checkpoint, ok: l.Restore.OK, err: l.Restore.Error, parallelism: l.Restore.Parallelism, objects: len(l.Restore.Objects)}
			for _, o := range l.Restore.Objects {
				row.bytes += o.Bytes
			}
			s.retained = append(s.retained, row)
		case l.Group != nil && n > 0 && s.retained[n-1].id == l.Checkpoint:
			row := &s.retained[n-1]
			row.elements += l.Group.Count
			if l.Group.Count > 0 {
				row.groups++
			}
			if len(l.Group.Missing)+len(l.Group.Extra) > 0 {
				row.differing++
			}
		}
	})
}
