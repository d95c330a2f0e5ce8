package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
)

// recorder keeps the events of a sink.
type recorder struct{ events []history.Event }

func (r *recorder) record(_ context.Context, e history.Event) { r.events = append(r.events, e) }

func (r *recorder) kinds() (list []string) {
	for _, e := range r.events {
		list = append(list, fmt.Sprintf("%s %s/%d/%d", e.Kind, e.Actor, e.Attempt, e.Checkpoint))
	}
	return list
}

func newTest(r *recorder) *Collect {
	return NewCollect(Options{Partitions: 4, MaxParallelism: 16, RecordIDs: true, Record: r.record})
}

func record(partition int32, index int64, tag uint8) *graph.Record {
	return &graph.Record{Partition: partition, Index: index, Tag: tag, Key: []byte{byte(index)}, Value: fmt.Appendf(nil, "%d-%d", partition, index)}
}

func groupOf(index int64) keygroup.ID { return keygroup.ID(index % 16) }

func (w *Writer) put(partition int32, from, to int64) {
	for i := from; i < to; i++ {
		w.Add(record(partition, i, 0), groupOf(i))
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// whole expects index 0 to n-1 of every partition, tag 0.
type whole struct{ n int64 }

func (e whole) OutputHas(_ int, index int64, tag uint8) bool { return tag == 0 && index < e.n }

func TestOutputCountsOnceItsCheckpointCompleted(t *testing.T) {
	var events recorder
	ctx, c := t.Context(), newTest(&events)
	w := c.Writer("sink-0", 1)
	w.put(0, 0, 700)
	first := must[string](t)(w.Precommit(ctx, 1))
	w.put(0, 700, 1000)
	if first != "sink-0/1/1" || w.Count() != 1000 {
		t.Fatalf("transaction %q, count %d", first, w.Count())
	}
	if r := c.Result(); r.Records != 0 || r.Pending != 1 || r.PendingRecords != 700 || len(r.Groups) != 0 {
		t.Fatalf("before the commit: %+v", r)
	}
	for range 2 {
		if err := c.Commit(ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	r := c.Result()
	if r.Records != 700 || r.Committed != 1 || r.Pending != 0 || len(r.Groups) != 16 {
		t.Fatalf("after the commit: %+v", r)
	}
	want := canon.Digest{}
	for i := int64(3); i < 700; i += 16 {
		rec := record(0, i, 0)
		want.Add(canon.Output(nil, 0, i, 0, rec.Key, rec.Value))
	}
	if g := r.Groups[3]; g != (GroupResult{Partition: 0, Group: 3, Count: want.Count, Digest: want.String()}) {
		t.Errorf("group 3 is %+v, want %v", g, want)
	}
	wantEvents := []string{"sink-precommitted sink-0/1/1", "sink-committed sink-0/1/1"}
	if got := events.kinds(); !reflect.DeepEqual(got, wantEvents) {
		t.Errorf("events %v, want %v", got, wantEvents)
	}
	if e := events.events; e[0].Digest != e[1].Digest || e[0].Records != 700 {
		t.Errorf("figures of the events: %+v", e)
	}
	if err := c.Commit(ctx, "sink-0/1/2"); !errors.Is(err, ErrUnknown) {
		t.Errorf("commit of a transaction never precommitted: %v", err)
	}
	for _, name := range []string{"", "x", "sink-0/1/x"} {
		if err := c.Commit(ctx, name); !errors.Is(err, ErrUnknown) {
			t.Errorf("commit of %q: %v", name, err)
		}
	}
}

func TestRestoreFencesEarlierAttempts(t *testing.T) {
	var events recorder
	ctx, c := t.Context(), newTest(&events)
	a, b := c.Writer("sink-0", 1), c.Writer("sink-1", 1)
	a.put(0, 0, 10)
	b.put(1, 0, 10)
	a1, b1 := must[string](t)(a.Precommit(ctx, 1)), must[string](t)(b.Precommit(ctx, 1))
	a.put(0, 10, 20)
	b.put(1, 10, 20)
	a2 := must[string](t)(a.Precommit(ctx, 2))
	if err := c.Commit(ctx, a1); err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(ctx, 2, []string{a1, b1}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Precommit(ctx, 2); !errors.Is(err, ErrFenced) {
		t.Errorf("precommit of a fenced attempt: %v", err)
	}
	if err := c.Commit(ctx, a2); !errors.Is(err, ErrUnknown) {
		t.Errorf("commit of an aborted transaction: %v", err)
	}
	if err := c.Commit(ctx, b1); err != nil {
		t.Errorf("late commit of a committed transaction: %v", err)
	}
	if err := c.Restore(ctx, 1, nil); !errors.Is(err, ErrFenced) {
		t.Errorf("restore of an older attempt: %v", err)
	}
	w := c.Writer("sink-0", 2) // one subtask reads both partitions now
	w.put(0, 10, 20)
	w.put(1, 10, 20)
	if err := c.Commit(ctx, must[string](t)(w.Precommit(ctx, 3))); err != nil {
		t.Fatal(err)
	}
	r := c.Result()
	d := r.Compare(whole{20}, []int64{20, 20, 0, 0}, 1, 5)
	if r.Records != 40 || r.DuplicateCount != 0 || r.Aborted != 1 || d.LostCount != 0 || d.UnexpectedCount != 0 {
		t.Errorf("result %+v, difference %+v", r, d)
	}
	want := []string{"sink-precommitted sink-0/1/1", "sink-precommitted sink-1/1/1", "sink-precommitted sink-0/1/2", "sink-committed sink-0/1/1",
		"sink-committed sink-1/1/1", "sink-aborted sink-0/1/2", "sink-precommitted sink-0/2/3", "sink-committed sink-0/2/3"}
	if got := events.kinds(); !reflect.DeepEqual(got, want) {
		t.Errorf("events\n%q, want\n%q", got, want)
	}
	if err := c.Restore(ctx, 3, []string{"sink-0/2/9"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("restore with a lost transaction: %v", err)
	}
}

// TestUncommittedTransactionOfFencedAttemptIsRefused covers a commit that meets the fence before the abort.
func TestUncommittedTransactionOfFencedAttemptIsRefused(t *testing.T) {
	ctx, c := t.Context(), newTest(&recorder{})
	txn := must[string](t)(c.Writer("sink-0", 1).Precommit(ctx, 1))
	if err := c.fence(2); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(ctx, txn); !errors.Is(err, ErrFenced) {
		t.Errorf("commit behind the fence: %v", err)
	}
	if err := c.Restore(ctx, 2, []string{txn}); err != nil {
		t.Errorf("restore after the fence: %v", err)
	}
}

func TestLostDuplicateAndStrayRecordsAreNamed(t *testing.T) {
	ctx, c := t.Context(), newTest(&recorder{})
	w := c.Writer("sink-0", 1)
	w.put(2, 0, 2000)
	w.put(2, 5, 6) // twice in one transaction
	w.Add(record(9, 0, 0), 0)
	w.Add(record(0, -1, 0), 0)
	w.Add(record(0, 0, 0), 16)
	if err := c.Commit(ctx, must[string](t)(w.Precommit(ctx, 1))); err != nil {
		t.Fatal(err)
	}
	w.put(2, 1999, 2000) // twice over two transactions
	w.put(2, 2001, 2010)
	w.Add(record(2, 7, 3), 7)
	if err := c.Commit(ctx, must[string](t)(w.Precommit(ctx, 2))); err != nil {
		t.Fatal(err)
	}
	r := c.Result()
	if want := []Identity{{2, 5, 0}, {2, 1999, 0}}; r.DuplicateCount != 2 || !reflect.DeepEqual(r.Duplicates, want) {
		t.Errorf("%d duplicates %v, want %v", r.DuplicateCount, r.Duplicates, want)
	}
	if r.Strays != 3 {
		t.Errorf("%d strays, want 3", r.Strays)
	}
	d := r.Compare(whole{1 << 40}, []int64{0, 0, 2005, 0}, 1, 3)
	want := Difference{LostCount: 1, Lost: []Identity{{2, 2000, 0}},
		UnexpectedCount: 6, Unexpected: []Identity{{2, 2005, 0}, {2, 2006, 0}, {2, 2007, 0}}}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("difference %+v, want %+v", d, want)
	}
	if !r.Has(Identity{2, 7, 3}) || r.Has(Identity{2, 8, 3}) || r.Has(Identity{1, 7, 0}) {
		t.Error("Has disagrees with what was committed")
	}
}

func TestResultSurvivesJSON(t *testing.T) {
	ctx, c := t.Context(), newTest(&recorder{})
	w := c.Writer("sink-0", 1)
	w.put(1, 0, 100_000)
	w.put(3, 5_000, 5_001)
	for i := int64(0); i < 1000; i++ {
		w.Add(record(0, i*i, 1), groupOf(i))
	}
	if err := c.Commit(ctx, must[string](t)(w.Precommit(ctx, 1))); err != nil {
		t.Fatal(err)
	}
	r := c.Result()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Result
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if back := must[[]byte](t)(json.Marshal(again)); string(back) != string(text) {
		t.Error("the result changes on its way through JSON")
	}
	for i := int64(0); i < 1000; i++ {
		if !again.Has(Identity{0, i * i, 1}) || i > 1 && again.Has(Identity{0, i*i - 1, 1}) {
			t.Fatalf("index %d is lost on the way through JSON", i*i)
		}
	}
	if again.Marks[1].Count != 100_000 || len(text) > 20_000 {
		t.Errorf("%d bytes for %d marks", len(text), again.Marks[1].Count)
	}
	if err := json.Unmarshal([]byte(`{"partition":1,"count":3,"bits":""}`), new(Marks)); err == nil {
		t.Error("marks with a wrong count are accepted")
	}
}

// TestAnyDealOfRecordsGivesOneResult deals the same records to several writers and transactions.
func TestAnyDealOfRecordsGivesOneResult(t *testing.T) {
	var want string
	for try := range uint64(20) {
		random := rand.New(rand.NewPCG(try, 1))
		ctx, c := t.Context(), newTest(&recorder{})
		writers := make([]*Writer, 1+random.IntN(5))
		for i := range writers {
			writers[i] = c.Writer(fmt.Sprint("sink-", i), 1)
		}
		checkpoint := uint64(0)
		flush := func() {
			checkpoint++
			for _, w := range writers {
				if err := c.Commit(ctx, must[string](t)(w.Precommit(ctx, checkpoint))); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, n := range random.Perm(4 * 1500) {
			writers[random.IntN(len(writers))].Add(record(int32(n%4), int64(n/4), 0), groupOf(int64(n/4)))
			if random.IntN(1000) == 0 {
				flush()
			}
		}
		flush()
		r := c.Result()
		if d := r.Compare(whole{1500}, []int64{1500, 1500, 1500, 1500}, 1, 3); d.LostCount+d.UnexpectedCount+r.DuplicateCount != 0 {
			t.Fatalf("try %d: difference %+v, %d duplicates", try, d, r.DuplicateCount)
		}
		r.Committed = 0
		if got := string(must[[]byte](t)(json.Marshal(r))); want == "" {
			want = got
		} else if got != want {
			t.Fatalf("try %d differs", try)
		}
	}
}

func TestIntervalsHoldWhatWasAdded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s intervals
	for n, id := range random.Perm(500) {
		if s.has(uint64(id)) {
			t.Fatalf("%d is there before it was added", id)
		}
		s.add(uint64(id))
		if !s.has(uint64(id)) || n == 499 && len(s.list) != 1 {
			t.Fatalf("after adding %d: %v", id, s.list)
		}
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	c := newTest(&recorder{})
	w := c.Writer("sink-0", 1)
	r := record(1, 0, 0)
	r.Value = make([]byte, 100)
	w.put(1, 0, 600)
	if n := testing.AllocsPerRun(1000, func() { r.Index = (r.Index + 1) % 512; w.Add(r, 3) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprint("ids=", ids), func(b *testing.B) {
			c := NewCollect(Options{Partitions: 16, MaxParallelism: 128, RecordIDs: ids})
			w := c.Writer("sink-0", 1)
			r := &graph.Record{Key: make([]byte, 8), Value: make([]byte, 100)}
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				r.Partition, r.Index = int32(i&15), i>>4
				w.Add(r, keygroup.ID(i&31))
			}
		})
	}
}
