package workloads

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

func newTestCounter(t testing.TB, options string, e Env) *counter {
	t.Helper()
	if e.MaxParallelism == 0 {
		e.MaxParallelism = 16
	}
	w, err := newCounter(json.RawMessage(options), e)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*counter)
}

func TestCounterMatchesItsModel(t *testing.T) {
	for name, options := range map[string]string{
		"map":         `{"keys":{"count":300},"timerEvery":"400us"}`,
		"list":        `{"keys":{"count":200,"pick":"zipf","s":1.1},"second":"list","listCap":3,"timerEvery":"900us"}`,
		"removals":    `{"keys":{"count":50,"pick":"zipf","hotset":{"share":"10%","moveEvery":"500us"}},"second":"list","listCap":5,"timerEvery":"300us","ops":{"delete":0.2}}`,
		"map-removal": `{"partitions":3,"keys":{"count":40},"listCap":2,"timerEvery":"100us","ops":{"delete":"30%"},"values":{"size":"5B"}}`,
		"lean":        `{"stages":1,"second":"none","timerEvery":0,"keys":{"count":100}}`,
		"timeless":    `{"stages":1,"second":"list","timerEvery":0,"keys":{"count":20},"ops":{"delete":"10%"}}`,
		"one":         `{"partitions":1,"keys":{"count":1},"totals":1,"timerEvery":"50us"}`,
	} {
		t.Run(name, func(t *testing.T) {
			mustMatchAnyInterleaving(t, func() Workload {
				return newTestCounter(t, options, Env{Seed: 7, Total: 3000})
			}, 16, 3000, 5)
		})
	}
}

func TestCounterWithFewerRecordsThanPartitions(t *testing.T) {
	mustMatchAnyInterleaving(t, func() Workload {
		return newTestCounter(t, `{"partitions":8,"timerEvery":"1us"}`, Env{Seed: 1, Total: 5, Rate: 1e6})
	}, 16, 5, 3)
}

func TestSourceIsAPureFunction(t *testing.T) {
	options := `{"partitions":5,"keys":{"count":1000,"pick":"zipf","hotset":{"share":"5%","moveEvery":"1ms"}},"ops":{"delete":"5%"}}`
	a, b := newTestCounter(t, options, Env{Seed: 3, Rate: 50_000}).source, newTestCounter(t, options, Env{Seed: 3, Rate: 50_000}).source
	other := newTestCounter(t, options, Env{Seed: 4, Rate: 50_000}).source
	owner, same := map[string]int32{}, 0
	var x, y, z graph.Record
	for p := range a.Partitions() {
		for i := int64(999); i >= 0; i-- {
			if _, err := a.Read(p, i, &x); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Read(p, i, &y); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Read(p, i, &z); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("record %d of partition %d is read as %v and %v", i, p, x, y)
			}
			if bytes.Equal(x.Value, z.Value) && len(x.Value) > 0 {
				same++
			}
			if was, known := owner[string(x.Key)]; known && was != x.Partition {
				t.Fatalf("key %x is in partitions %d and %d", x.Key, was, x.Partition)
			}
			owner[string(x.Key)] = x.Partition
			if x.Partition != int32(p) || x.Index != i || x.EventTime < a.Watermark(p, i) || x.EventTime >= a.Watermark(p, i+1) {
				t.Fatalf("record %v has watermarks %d and %d", x, a.Watermark(p, i), a.Watermark(p, i+1))
			}
			if got, want := a.Due(p, i), time.Duration(i*5+int64(p))*20*time.Microsecond; got != want {
				t.Fatalf("record %d of partition %d is due at %v, want %v", i, p, got, want)
			}
		}
	}
	if same > 0 {
		t.Errorf("%d values are the same under another seed", same)
	}
}

func TestLimitsAddUp(t *testing.T) {
	for _, partitions := range []int{1, 3, 16} {
		s := newTestCounter(t, fmt.Sprintf(`{"partitions":%d}`, partitions), Env{}).source
		for _, total := range []int64{0, 1, 2, 15, 16, 17, 1000, math.MaxInt64} {
			sum := int64(0)
			for p := range partitions {
				sum += s.Limit(p, total)
			}
			if sum != total {
				t.Errorf("%d partitions of %d records have %d", partitions, total, sum)
			}
		}
	}
}

func TestKeysArePickedAsAsked(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		pick         string
		first, tenth float64 // share of the most frequent key and of the tenth
	}{{"uniform", 0.001, 0.001}, {"zipf", 1 / 7.789, 1 / 77.2}} {
		g := newTestCounter(t, `{"partitions":1,"keys":{"count":1000,"s":0.99,"pick":"`+c.pick+`"}}`, Env{}).source.g
		counts := make([]float64, 1000)
		for i := range int64(n) {
			counts[g.local(0, i, g.draw(0, i))]++
		}
		for rank, want := range map[int]float64{0: c.first, 9: c.tenth} {
			if got := counts[rank] / n; math.Abs(got-want) > 0.25*want {
				t.Errorf("%s: rank %d has a share of %v, want %v", c.pick, rank, got, want)
			}
		}
	}
}

// TestFillComesAtItsPace: the first records, as many as there are keys, come faster, the others at the rate, and none before the one
// ahead of it.
func TestFillComesAtItsPace(t *testing.T) {
	g := newTestCounter(t, `{"partitions":2,"keys":{"count":100,"fill":true,"fillPace":10}}`, Env{Rate: 100}).source.g
	at := func(n int64) time.Duration { return time.Duration(g.eventTime(int(n%2), n/2)) }
	for n, want := range map[int64]time.Duration{0: 0, 1: time.Millisecond, 99: 99 * time.Millisecond, 100: 100 * time.Millisecond, 101: 110 * time.Millisecond, 200: 1100 * time.Millisecond} { // order-free: each for itself
		if got := at(n); got != want {
			t.Errorf("record %d is due at %v, want %v", n, got, want)
		}
	}
	for n := range int64(300) {
		if at(n+1) <= at(n) {
			t.Errorf("record %d is due at %v, the one before at %v", n+1, at(n+1), at(n))
		}
	}
	for _, bad := range []string{`{"keys":{"fillPace":10}}`, `{"keys":{"fill":true,"fillPace":0.5}}`, `{"keys":{"fill":true,"fillPace":1e9}}`} {
		if _, err := Counter().Resolve([]byte(bad)); err == nil || !strings.Contains(err.Error(), "keys.fillPace") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFillVisitsEveryKeyOnceFirst(t *testing.T) {
	g := newTestCounter(t, `{"partitions":3,"keys":{"count":100,"fill":true}}`, Env{}).source.g
	seen := map[uint64]bool{}
	for p := range 3 {
		for i := range g.partitions[p].keys {
			seen[g.key(p, g.local(p, i, g.draw(p, i)))] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("the first records visit %d of 100 keys", len(seen))
	}
}

func TestHotsetMoves(t *testing.T) {
	g := newTestCounter(t, `{"partitions":1,"keys":{"count":100,"pick":"zipf","s":3,"hotset":{"share":"10%","moveEvery":"1ms"}}}`, Env{}).source.g
	hottest := func(from int64) int {
		counts := make([]int, 100)
		for i := range int64(1000) {
			counts[g.local(0, from+i, g.draw(0, from+i))]++
		}
		best := 0
		for k, n := range counts {
			if n > counts[best] {
				best = k
			}
		}
		return best
	}
	if a, b, c := hottest(0), hottest(1000), hottest(9000); a != 0 || b != 10 || c != 90 {
		t.Errorf("hottest keys are %d, %d, %d, want 0, 10, 90", a, b, c)
	}
}

func TestValuesCompressAsAsked(t *testing.T) {
	for _, c := range []struct{ ask, low, high float64 }{{0, 0.98, 1.02}, {0.5, 0.48, 0.56}, {1, 0, 0.05}} {
		s := newTestCounter(t, fmt.Sprintf(`{"values":{"size":"1000B","compressible":%v}}`, c.ask), Env{}).source
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		var r graph.Record
		for i := range int64(500) {
			if _, err := s.Read(0, i, &r); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(r.Value); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := float64(packed.Len()) / 500_000; got < c.low || got > c.high {
			t.Errorf("compressible %v: packed to %v of the size, want %v to %v", c.ask, got, c.low, c.high)
		}
	}
}

func TestPayloadPrefixIsThatOfTheWhole(t *testing.T) {
	for _, random := range []int{0, 3, 8, 13, 40} {
		g := generator{random: random}
		whole := make([]byte, 40)
		g.payload(whole, 12345)
		for n := range whole {
			part := make([]byte, n)
			if g.payload(part, 12345); !bytes.Equal(part, whole[:n]) {
				t.Errorf("%d random bytes: prefix of %d is %x of %x", random, n, part, whole)
			}
		}
	}
}

func TestCounterOptionsAreStrict(t *testing.T) {
	for options, want := range map[string]string{
		`{"key":{}}`:                    `option "key" does not exist; did you mean "keys"?`,
		`{"keys":{"cuont":1}}`:          `option "keys.cuont" does not exist; did you mean "keys.count"?`,
		`{"keys":{"count":"many"}}`:     `option "keys.count" is a string, want int64`,
		`{"keys":{"count":2}}`:          "keys.count is 2, must be from partitions (4)",
		`{"timerEvery":5}`:              "write 5s",
		`{"values":{"size":100}}`:       "write 100B",
		`{"stages":3,"second":"x"}`:     "second is",
		`{"keys":{"hotset":{}}}`:        "needs pick: zipf",
		`{"values":{"compressible":2}}`: "between 0% and 100%",
		`[1]`:                           "want",
		`{} {}`:                         "options go on after their end",
		`{`:                             "not JSON",
	} {
		if _, err := newCounter(json.RawMessage(options), Env{MaxParallelism: 8}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", options, err, want)
		}
	}
}

func TestResolvedOptionsAreComplete(t *testing.T) {
	kind := Counter()
	for _, options := range []string{``, `null`, `{}`, `{"keys":{"pick":"zipf","hotset":{"share":0.01,"moveEvery":"30s"}},"timerEvery":0}`} {
		once, err := kind.Resolve(json.RawMessage(options))
		if err != nil {
			t.Fatal(err)
		}
		twice, err := kind.Resolve(once)
		if err != nil || string(once) != string(twice) {
			t.Errorf("%s resolves to %s, then to %s, %v", options, once, twice, err)
		}
		for _, name := range []string{"partitions", "stages", "count", "pick", "size", "compressible", "second", "listCap", "timerEvery", "totals", "delete"} {
			if !strings.Contains(string(once), `"`+name+`"`) {
				t.Errorf("%s resolves to %s, without %s", options, once, name)
			}
		}
	}
	if files, err := kind.Inputs(nil); err != nil || len(files) != 0 {
		t.Errorf("inputs %v, %v", files, err)
	}
}

func TestModelRefusesImpossiblePositions(t *testing.T) {
	m := newTestCounter(t, `{"partitions":2}`, Env{Total: 10}).Model()
	if err := m.Advance([]int64{3, 4}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]int64{{1, 4}, {3}, {3, 6}} {
		if err := m.Advance(bad); err == nil {
			t.Errorf("positions %v are accepted", bad)
		}
	}
}

// heavy is a job of the size that a long run reaches.
const heavy = `{"partitions":16,"keys":{"count":1000000,"pick":"zipf"},"values":{"size":"100B"}}`

func TestReadDoesNotAllocate(t *testing.T) {
	s := newTestCounter(t, `{}`, Env{Rate: 1000}).source
	r, i := graph.Record{}, int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.Read(1, i, &r); err != nil {
			t.Fatal(err)
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, options := range map[string]string{"uniform": `{}`, "zipf-1M": heavy} {
		b.Run(name, func(b *testing.B) {
			s := newTestCounter(b, options, Env{Rate: 40_000}).source
			var r graph.Record
			n := int64(s.Partitions())
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				if _, err := s.Read(int(i%n), i/n, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkModel(b *testing.B) {
	for name, options := range map[string]string{"full": heavy, "lean": `{"partitions":16,"keys":{"count":1000000},"stages":1,"second":"none","timerEvery":0}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			const step = 100_000
			m := newTestCounter(b, options, Env{Rate: 400_000, MaxParallelism: 128}).Model()
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
		})
	}
}

func BenchmarkModelGroups(b *testing.B) {
	m := newTestCounter(b, heavy, Env{Rate: 400_000, MaxParallelism: 128}).Model()
	positions := make([]int64, 16)
	for p := range positions {
		positions[p] = 100_000
	}
	if err := m.Advance(positions); err != nil {
		b.Fatal(err)
	}
	elements := int64(0)
	for b.Loop() {
		elements = 0
		m.Groups(func(_, _ string, _ keygroup.ID, d canon.Digest) { elements += d.Count })
	}
	b.ReportMetric(float64(elements), "elements")
}

// BenchmarkOperators measures generator, operators, typed state and sink of one record in one process, on the heap backend.
func BenchmarkOperators(b *testing.B) {
	for name, options := range map[string]string{
		"map":  `{"partitions":1,"keys":{"count":100000}}`,
		"list": `{"partitions":1,"keys":{"count":100000},"second":"list"}`,
		"lean": `{"partitions":1,"keys":{"count":100000},"stages":1,"second":"none","timerEvery":0}`,
	} {
		b.Run(name, func(b *testing.B) {
			w := newTestCounter(b, options, Env{Rate: 100_000, MaxParallelism: 128})
			h := newHarness(b, w, 128, func() int { return 1 }, inHeap)
			h.read(0, 200_000, math.MaxInt64)
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
