package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

func TestRecorderNumbersWithoutGapAndTellsObservers(t *testing.T) {
	var out bytes.Buffer
	at := time.Duration(0)
	r := NewRecorder(func() time.Duration { at += time.Millisecond; return at }, &out)
	var seen []int64
	r.Observe(func(_ context.Context, e *Event) { seen = append(seen, e.N) })
	r.Record(t.Context(), Event{Kind: PhaseBegin, Phase: "fill"})
	r.Record(t.Context(), Event{Kind: StorePutBegin})
	r.Record(t.Context(), Event{Kind: PhaseEnd, Phase: "fill"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var e Event
	d := json.NewDecoder(&out)
	for want := int64(1); want <= 2; want++ {
		if err := d.Decode(&e); err != nil || e.N != want {
			t.Fatalf("event %d: %+v, %v", want, e, err)
		}
	}
	if len(seen) != 3 || seen[1] != 0 || e.At != 3*time.Millisecond {
		t.Fatalf("observers saw %v, last event %+v", seen, e)
	}
}

func TestRecorderKeepsTheWriteErrorAndGoesOn(t *testing.T) {
	r := NewRecorder(func() time.Duration { return 0 }, &failing{after: 100})
	for range 5000 {
		r.Record(t.Context(), Event{Kind: Note, Text: "to fill the buffer"})
	}
	if r.Err() == nil || r.Close() == nil {
		t.Fatal("the write error got lost")
	}
	if r.Events() != 5000 {
		t.Fatalf("events %d", r.Events())
	}
}

func TestDigestCoversEveryField(t *testing.T) {
	digest := func(e Event) string {
		r := NewRecorder(func() time.Duration { return 1 }, &bytes.Buffer{})
		r.Record(t.Context(), e)
		return r.Digest()
	}
	if digest(Event{Kind: Note, Bytes: 1}) == digest(Event{Kind: Note, Bytes: 2}) {
		t.Fatal("a field does not change the digest")
	}
}
