package workloads

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// inMemory opens files by name from a map.
func inMemory(files map[string]string) func(string) (io.ReadCloser, error) {
	return func(path string) (io.ReadCloser, error) {
		text, ok := files[path]
		if !ok {
			return nil, os.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

func newTestTrace(t testing.TB, options, text string, e Env) (*trace, error) {
	t.Helper()
	if e.MaxParallelism == 0 {
		e.MaxParallelism = 16
	}
	if e.Open == nil {
		e.Open = inMemory(map[string]string{"t.csv": text})
	}
	w, err := newTrace(json.RawMessage(options), e)
	if err != nil {
		return nil, err
	}
	return w.(*trace), nil
}

// rides makes rows of a file with fractional times and numbers.
func rides(n int, seed uint64) string {
	random := rand.New(rand.NewPCG(seed, 3))
	var b strings.Builder
	b.WriteString("\ufeffwhen,who,lane,from,to,delay,cost\r\n")
	at := -20_000.0
	for range n {
		at += random.Float64() * 30
		fmt.Fprintf(&b, "%.3f,car %d,%d,\"p, %d\",q%d,%d,%.2f\n", at, random.IntN(40), random.IntN(2), random.IntN(5), random.IntN(7), random.IntN(60)-10, random.Float64()*9)
	}
	return b.String()
}

const rideOptions = `{"file":"t.csv","partitions":3,"time":{"column":"when"},"key":["who","lane"],"second":"from","values":["delay","cost"],"labels":["to"],"timerEvery":"1h"}`

func TestTraceMatchesItsModel(t *testing.T) {
	text := rides(2000, 1)
	for name, options := range map[string]string{
		"full":   rideOptions,
		"single": `{"file":"t.csv","partitions":5,"time":{"column":"when"},"key":"who","values":"cost","timerEvery":"20m"}`,
		"plain":  `{"file":"t.csv","partitions":2,"time":{"column":"when"},"key":"who","second":["from","lane"],"labels":["to","from"],"timerEvery":0}`,
		"sparse": `{"file":"t.csv","partitions":200,"time":{"column":"when"},"key":"who"}`,
	} {
		t.Run(name, func(t *testing.T) {
			mustMatchAnyInterleaving(t, func() Workload {
				w, err := newTestTrace(t, options, text, Env{Total: 1900})
				if err != nil {
					t.Fatal(err)
				}
				return w
			}, 16, 1900, 4)
		})
	}
}

func TestBadRowsAreSkippedByBothSides(t *testing.T) {
	var b strings.Builder
	bad := []string{"x,car 1,0,p,q,1,1", "1,car 1,0,p,q,1", "1e3,car 1,0,p,q,1,1", "90000000,car 1,0,p,q,.5,1", "90000000,car 1,0,p,q,5.,1",
		"90000000,car 1,0,p,q,1.2345678,1", "90000000,car 1,0,p,q,-,1", "90000000,car 1,0,p,q,99999999999999999999,1", "-30000,car 1,0,p,q,1,1",
		"90000000,car 1,0,p\"p,q,1,1", "90000000,car 1,0,p,q,1,+-1", "90000000,car 1,0,p,q,,1", "90000000,car 1,0,p,q,9223372036854.775808,1"}
	for i, row := range strings.SplitAfter(rides(300, 2), "\n") {
		b.WriteString(row)
		if i > 0 && i%20 == 0 && i/20 <= len(bad) {
			b.WriteString(bad[i/20-1] + "\n")
		}
	}
	options := strings.Replace(rideOptions, `"1h"`, fmt.Sprintf(`"1h","badRows":%d`, len(bad)), 1)
	mustMatchAnyInterleaving(t, func() Workload {
		w, err := newTestTrace(t, options, b.String(), Env{})
		if err != nil {
			t.Fatal(err)
		}
		if list := w.Warnings(); len(list) != 1 || !strings.Contains(list[0], "t.csv: 13 bad rows: line 22: column when: \"x\" is not a number") {
			t.Fatalf("warnings %q", list)
		}
		if !strings.Contains(w.Describe(), "trace: 300 rows") || !strings.Contains(w.Describe(), "13 rows skipped") {
			t.Fatalf("describes itself as %q", w.Describe())
		}
		return w
	}, 16, 1<<40, 2)
	if _, err := newTestTrace(t, strings.Replace(options, ":13", ":12", 1), b.String(), Env{}); err == nil || !strings.Contains(err.Error(), "badRows allows 12: 13 bad rows: line 22") {
		t.Errorf("one bad row too many: %v", err)
	}
}

func TestTraceSaysWhatIsWrong(t *testing.T) {
	text := "when,who,n\n1,a,1\n2,b,2\n"
	for options, want := range map[string]string{
		`{}`: "file is missing",
		`{"file":"t.csv","time":{"column":"wen"},"key":"who"}`:                               `column "wen" does not exist; did you mean "when"?`,
		`{"file":"t.csv","time":{"column":"when","unit":"h"},"key":"who"}`:                   "must be s, ms, us or ns",
		`{"file":"no.csv","time":{"column":"when"},"key":"who"}`:                             "open no.csv",
		`{"file":"t.csv","time":{"column":"when"},"key":"who","values":"who"}`:               `line 2: column who: "a" is not a number`,
		`{"file":"t.csv","time":{"column":"when"},"key":"who","speed":2,"duration":"1s"}`:    "both given",
		`{"file":"t.csv","time":{"column":"when"},"key":"who","values":[1]}`:                 "option",
		`{"file":"t.csv","time":{"column":"when"},"key":["who","who","x"],"labels":["lbl"]}`: `column "x" does not exist`,
		`{"file":"bad.gz","time":{"column":"when"},"key":"who"}`:                             "read bad.gz",
		`{"file":"cut.gz","time":{"column":"when"},"key":"who"}`:                             "read cut.gz: unexpected EOF",
		`{"file":"empty.csv","time":{"column":"when"},"key":"who"}`:                          "read empty.csv: header: EOF",
		`{"file":"head.csv","time":{"column":"when"},"key":"who"}`:                           "no rows",
	} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := io.WriteString(w, rides(500, 5)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"t.csv": text, "bad.gz": text, "cut.gz": packed.String()[:packed.Len()/2], "empty.csv": "", "head.csv": "when,who,n\n"}
		if _, err := newTestTrace(t, options, "", Env{Open: inMemory(files)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", options, err, want)
		}
	}
	good := `{"file":"t.csv","time":{"column":"when"},"key":"who"}`
	if _, err := newTestTrace(t, good, text, Env{Total: 3}); err == nil || !strings.Contains(err.Error(), "has 2 rows, the run needs 3") {
		t.Errorf("more records than rows: %v", err)
	}
	if _, err := newTestTrace(t, strings.Replace(good, "}", `},"speed":3`, 1), text, Env{Rate: 3}); err == nil || !strings.Contains(err.Error(), "one will do") {
		t.Errorf("rate and speed: %v", err)
	}
	outOfOrder := "when,who,n\n5,a,1\n4,b,2\n6,c,1\n"
	if _, err := newTestTrace(t, good, outOfOrder, Env{}); err == nil || !strings.Contains(err.Error(), "line 3: time 4 is before that of a row above") {
		t.Errorf("rows out of order: %v", err)
	}
}

func TestTracePacing(t *testing.T) {
	text := "when,who,n\n10,a,1\n12.5,b,2\n30,a,2\n"
	base := `{"file":"t.csv","partitions":1,"time":{"column":"when"},"key":"who"`
	for _, c := range []struct {
		options string
		rate    float64
		want    [3]time.Duration
	}{
		{`}`, 0, [3]time.Duration{-1, -1, -1}},
		{`,"speed":5}`, 0, [3]time.Duration{0, 500 * time.Millisecond, 4 * time.Second}},
		{`,"duration":"2s"}`, 0, [3]time.Duration{0, 250 * time.Millisecond, 2 * time.Second}},
		{`}`, 100, [3]time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond}},
	} {
		w, err := newTestTrace(t, base+c.options, text, Env{Rate: c.rate})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if got := w.source.Due(0, int64(i)); got != want {
				t.Errorf("%s: record %d is due at %v, want %v", c.options, i, got, want)
			}
		}
	}
}

func TestTraceSourceKeepsItsContract(t *testing.T) {
	w, err := newTestTrace(t, rideOptions, rides(3000, 4), Env{})
	if err != nil {
		t.Fatal(err)
	}
	s, owner, sum := w.source, map[string]int{}, int64(0)
	for p := range s.Partitions() {
		n := s.Limit(p, math.MaxInt64)
		sum += n
		for i := range n {
			var r graph.Record
			if ok, err := s.Read(p, i, &r); !ok || err != nil {
				t.Fatalf("read: %v, %v", ok, err)
			}
			if was, known := owner[string(r.Key)]; known && was != p {
				t.Fatalf("key %q is in partitions %d and %d", r.Key, was, p)
			}
			owner[string(r.Key)] = p
			if r.EventTime < s.Watermark(p, i) || s.Watermark(p, i+1) < s.Watermark(p, i) {
				t.Fatalf("record %d of partition %d at %d, watermarks %d and %d", i, p, r.EventTime, s.Watermark(p, i), s.Watermark(p, i+1))
			}
		}
		if ok, err := s.Read(p, n, new(graph.Record)); ok || err != nil {
			t.Errorf("read past the end: %v, %v", ok, err)
		}
	}
	if sum != 3000 {
		t.Errorf("limits add up to %d, want 3000", sum)
	}
	for _, total := range []int64{0, 1, 7, 2999, 3000} {
		sum := int64(0)
		for p := range s.Partitions() {
			sum += s.Limit(p, total)
		}
		if sum != total {
			t.Errorf("limits of %d records add up to %d", total, sum)
		}
	}
}

func TestTraceResolvesAndNamesItsInput(t *testing.T) {
	once, err := Trace().Resolve(json.RawMessage(rideOptions))
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Trace().Resolve(once)
	if err != nil || string(once) != string(twice) {
		t.Errorf("resolves to %s, then to %s, %v", once, twice, err)
	}
	if files, err := Trace().Inputs(once); err != nil || len(files) != 1 || files[0] != "t.csv" {
		t.Errorf("inputs %v, %v", files, err)
	}
}

const flightOptions = `{"file":"../scenarios/data/flights.csv.gz","partitions":8,"time":{"column":"time_s"},"key":"tail_number","second":"origin",` +
	`"values":["departure_delay_min","distance_mi"],"labels":"destination","duration":"40s"}`

func openFile(path string) (io.ReadCloser, error) { return os.Open(filepath.FromSlash(path)) }

// TestFlights loads the whole file and runs the first part of it through the operators.
func TestFlights(t *testing.T) {
	w, err := newTestTrace(t, flightOptions, "", Env{MaxParallelism: 128, Open: openFile})
	if err != nil {
		t.Fatal(err)
	}
	if want := "trace: 328521 rows of ../scenarios/data/flights.csv.gz over 8755h9m0s of event time, 4037 keys in 8 partitions, at 787964 times its speed"; w.Describe() != want {
		t.Errorf("describes itself as %q, want %q", w.Describe(), want)
	}
	var last time.Duration
	for p := range w.source.Partitions() {
		last = max(last, w.source.Due(p, w.source.Limit(p, math.MaxInt64)-1))
	}
	if last != 40*time.Second {
		t.Errorf("the last row is due at %v, want 40s", last)
	}
	if testing.Short() {
		return
	}
	h := newHarness(t, w, 128, func() int { return 3 }, inHeap)
	h.run(rand.New(rand.NewPCG(1, 1)), 40_000, 0, func() { h.mustMatch(w.Model(), 1) })
}

func BenchmarkTraceLoad(b *testing.B) {
	for b.Loop() {
		if _, err := newTestTrace(b, flightOptions, "", Env{Open: openFile}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTraceRead(b *testing.B) {
	w, err := newTestTrace(b, flightOptions, "", Env{Open: openFile})
	if err != nil {
		b.Fatal(err)
	}
	var r graph.Record
	n := w.source.Limit(0, math.MaxInt64)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i = (i + 1) % n {
		if _, err := w.source.Read(0, i, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTraceModel(b *testing.B) {
	w, err := newTestTrace(b, flightOptions, "", Env{MaxParallelism: 128, Open: openFile})
	if err != nil {
		b.Fatal(err)
	}
	positions := make([]int64, 8)
	for p := range positions {
		positions[p] = w.source.Limit(p, math.MaxInt64)
	}
	for b.Loop() {
		m := w.Model()
		if err := m.Advance(make([]int64, 8)); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := m.Advance(positions); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(328_521/time.Since(began).Seconds()/1e6, "Mrecords/s")
		m.Groups(func(string, string, keygroup.ID, canon.Digest) {})
	}
}
