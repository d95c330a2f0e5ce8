package scrub_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// swept is a bucket in which a repair is tried whenever some objects of a run came, beside those that are under way.
type swept struct {
	store.Bucket
	t       *testing.T
	w       world.World
	at      map[string]time.Time
	puts    int
	under   int // puts that have not been answered
	busy    bool
	audits  int // made while some were
	orphans int64
	removed int // by repairs
}

func (b *swept) now() time.Time { return now.Add(b.w.Now()) }

func (b *swept) List(ctx context.Context, prefix, after string) iter.Seq2[store.Attributes, error] {
	return dated{Bucket: b.Bucket, at: b.at}.List(ctx, prefix, after)
}

func (b *swept) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	b.under++
	defer func() { b.under-- }()
	if err := b.Bucket.Put(ctx, key, body, o); err != nil {
		return err
	}
	b.at[key] = b.now()
	if err := b.w.Sleep(ctx, 50*time.Millisecond); err != nil { // nobody has heard of it yet
		return err
	}
	if b.puts++; b.puts%5 == 0 && !b.busy {
		b.busy = true
		b.sweep(ctx, key)
		b.busy = false
	}
	return nil
}

func (b *swept) Delete(ctx context.Context, keys []string) []store.Deleted {
	if store.InfoOf(ctx).Cause == scrub.Cause {
		b.removed += len(keys)
	}
	return b.Bucket.Delete(ctx, keys)
}

func (b *swept) Close() error { return nil }

// sweep audits the run and repairs what it finds.
func (b *swept) sweep(ctx context.Context, key string) {
	prefix, _, _ := strings.Cut(key, "/")
	run := store.WithPrefix(b, prefix+"/")
	r, err := scrub.Audit(ctx, b.w, run, scrub.Options{Formats: catalog.Formats(), Shallow: true, Now: b.now()})
	if err != nil {
		b.t.Error(err)
		return
	}
	b.audits++
	b.orphans += r.Counts[scrub.Orphan]
	if r.Counts[scrub.Dangling]+r.Counts[scrub.Corrupt] > 0 && !r.Moved {
		b.t.Errorf("at %v: %+v", b.w.Now(), r.Counts)
	}
	_, err = scrub.Repair(ctx, b.w, run, r, scrub.RepairOptions{Yes: true, Now: b.now(), Owner: "sweeper"})
	var refused *scrub.RefusedError
	if !errors.As(err, &refused) {
		b.t.Errorf("at %v a repair beside a live run: %v", b.w.Now(), err)
	}
}

// TestA19SweepBesideSlowUploads: audits with repair are made again and again while a run puts objects that nothing names yet. They see
// them, and remove nothing: the coordinator log says that somebody is alive.
func TestA19SweepBesideSlowUploads(t *testing.T) {
	b := &swept{Bucket: store.NewMem(), t: t, at: map[string]time.Time{}}
	runOn(t, "lsm-changelog", func(w world.World) store.Bucket { b.w = w; return b })
	if b.audits < 10 || b.orphans == 0 || b.removed != 0 {
		t.Errorf("%d audits, %d orphans seen, %d objects removed", b.audits, b.orphans, b.removed)
	}
	prefixes, err := scrub.Prefixes(t.Context(), b.Bucket)
	if err != nil || len(prefixes) != 1 {
		t.Fatalf("the run lies under %q: %v", prefixes, err)
	}
	r, all := audit(t, store.WithPrefix(b.Bucket, prefixes[0]), scrub.Options{})
	if len(all) > 0 || len(r.Checkpoints) == 0 {
		t.Errorf("%d checkpoints, findings %+v", len(r.Checkpoints), all)
	}
}
