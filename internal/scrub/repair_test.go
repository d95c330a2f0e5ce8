package scrub_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// old is when all objects of the tests were written that say nothing else.
func old(b store.Bucket) dated { return dated{Bucket: b, by: now.Add(-24 * time.Hour)} }

// repaired audits and repairs b.
func repaired(t *testing.T, b store.Bucket, o scrub.RepairOptions, between func(context.Context, world.World) error) (done scrub.Repaired, err error) {
	t.Helper()
	o.Now, o.Owner = now, "test"
	inWorld(t, func(ctx context.Context, w world.World) error {
		r, aerr := scrub.Audit(ctx, w, b, scrub.Options{Formats: catalog.Formats(), Now: now})
		if aerr != nil {
			return aerr
		}
		if between != nil {
			if err := between(ctx, w); err != nil {
				return err
			}
		}
		done, err = scrub.Repair(ctx, w, b, r, o)
		return nil
	})
	return done, err
}

// TestRepairRemovesOrphansOnly: what is needed, foreign, or a savepoint's stays, and afterwards there is no orphan.
func TestRepairRemovesOrphansOnly(t *testing.T) {
	for _, arm := range armNames() {
		objects := left(t, arm)
		mem := bucketOf(t, objects)
		littered(t, mem)
		before := contents(t, mem)
		done, err := repaired(t, old(mem), scrub.RepairOptions{}, nil)
		if err != nil || done.Done || done.Objects != 4 || done.Uploads != 1 || done.Left() != 5 || !maps.EqualFunc(before, contents(t, mem), slices.Equal) {
			t.Errorf("%s: the dry run says %+v, %v", arm, done, err)
		}
		done, err = repaired(t, old(mem), scrub.RepairOptions{Yes: true}, nil)
		if err != nil || !done.Done || done.Objects != 4 || done.Uploads != 1 || done.Left() != 0 {
			t.Errorf("%s: repaired %+v, %v", arm, done, err)
		}
		r, all := audit(t, mem, scrub.Options{})
		if len(all) != 2 || r.Counts[scrub.Foreign] != 1 || r.Counts[scrub.Loose] != 1 {
			t.Errorf("%s: afterwards %+v", arm, all)
		}
		after := contents(t, mem)
		for key := range objects {
			if !slices.Equal(after[key], objects[key]) {
				t.Errorf("%s: %s is not what it was", arm, key)
			}
		}
	}
}

// TestRepairSparesWhatIsNotARuns: uploads of savepoints are the user's; keys that no run would give are somebody else's.
func TestRepairSparesWhatIsNotARuns(t *testing.T) {
	mem := bucketOf(t, left(t, "heap"))
	littered(t, mem)
	strange := []string{"meta/strange", "log/strange", "base/1/", "base/x/count-0/1"}
	for _, key := range strange {
		put(t, mem, key, []byte("x"))
	}
	for _, key := range []string{"savepoint/400/count-0/1", "elsewhere/upload"} {
		if _, err := mem.BeginUpload(t.Context(), key, []byte("part")); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := repaired(t, old(mem), scrub.RepairOptions{Yes: true}, nil); err != nil || done.Uploads != 1 {
		t.Errorf("repaired %+v, %v", done, err)
	}
	if open, err := mem.Uploads(t.Context(), ""); err != nil || len(open) != 2 {
		t.Errorf("still open: %+v, %v", open, err)
	}
	after := contents(t, mem)
	for _, key := range strange {
		if after[key] == nil {
			t.Errorf("%s, which no run would write, was removed", key)
		}
	}
}

// TestRepairSparesTheYoung: what is younger than the grace age stays, and what has no age, unless that is said to do.
func TestRepairSparesTheYoung(t *testing.T) {
	mem := bucketOf(t, left(t, "heap"))
	littered(t, mem)
	b := old(mem)
	b.at = map[string]time.Time{"meta/5000-1": now.Add(-time.Minute), "base/1/count-0/900": {}}
	day, none := 20*time.Hour, time.Duration(0)
	done, err := repaired(t, b, scrub.RepairOptions{Yes: true, Grace: &day}, nil)
	if err != nil || done.Objects != 2 || done.Young != 1 || done.Ageless != 1 || done.Left() != 2 {
		t.Errorf("repaired %+v, %v", done, err)
	}
	b.at[checkpoint.EntryKey(entries(t, mem))] = now // that of the repair, which is no coordinator's
	done, err = repaired(t, b, scrub.RepairOptions{Yes: true, Grace: &none}, nil)
	if err != nil || done.Objects != 2 || done.Left() != 0 {
		t.Errorf("repaired %+v, %v", done, err)
	}
}

// overtaken is a bucket in which a coordinator adds an entry to its log just before somebody else does.
type overtaken struct {
	store.Bucket
	by   checkpoint.Entry
	done bool
}

func (b *overtaken) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if !b.done && scrub.ClassOf(key) == scrub.ClassCoord {
		b.done = true
		if err := b.Bucket.Put(ctx, checkpoint.EntryKey(b.by.Seq), checkpoint.EncodeEntry(b.by), store.PutOptions{}); err != nil {
			return err
		}
	}
	return b.Bucket.Put(ctx, key, body, o)
}

// TestRepairIsRefused: without a marker, where damage leaves open what is needed, under a coordinator that may live or does.
func TestRepairIsRefused(t *testing.T) {
	objects := left(t, "heap-changelog")
	r, _ := audit(t, bucketOf(t, objects), scrub.Options{Shallow: true})
	meta, last := r.Checkpoints[0].Metadata, checkpoint.EntryKey(r.Log.Entries)
	without := maps.Clone(objects)
	maps.DeleteFunc(without, func(key string, _ []byte) bool { return scrub.ClassOf(key) == scrub.ClassCoord })
	logless := bucketOf(t, without)
	racing := &overtaken{Bucket: bucketOf(t, objects), by: checkpoint.Entry{Seq: r.Log.Entries + 1, Kind: checkpoint.Complete, Term: r.Log.Term, Owner: r.Log.Leader, ID: 9000, Metadata: checkpoint.MetadataKey(9000, r.Log.Term)}}
	littered(t, racing.Bucket.(*store.Mem))
	wrong := checkpoint.Entry{Seq: r.Log.Entries + 1, Kind: checkpoint.Complete, Term: r.Log.Term, Owner: "c", ID: 9000, Metadata: meta}
	none := time.Duration(0)
	fresh := old(bucketOf(t, objects))
	fresh.at = map[string]time.Time{last: now.Add(-90 * time.Second)}
	alive, completing := bucketOf(t, objects), bucketOf(t, objects)
	littered(t, alive)
	littered(t, completing)
	led := func(b store.Bucket, complete bool) func(context.Context, world.World) error {
		return func(ctx context.Context, w world.World) error {
			l, err := checkpoint.OpenLog(ctx, w, b, "somebody")
			if err == nil {
				_, err = l.TakeOver(ctx)
			}
			if err == nil && complete {
				err = l.Complete(ctx, 9000, checkpoint.MetadataKey(9000, l.Term()))
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		b       store.Bucket
		o       scrub.RepairOptions
		between func(context.Context, world.World) error
		want    string
	}{
		"no marker":     {old(replaced(t, objects, scrub.Marker, nil)), scrub.RepairOptions{}, nil, "no run has marked"},
		"no metadata":   {old(replaced(t, objects, meta, nil)), scrub.RepairOptions{}, nil, "not certain"},
		"of another":    {old(replaced(t, objects, checkpoint.EntryKey(wrong.Seq), checkpoint.EncodeEntry(wrong))), scrub.RepairOptions{}, nil, "not certain"},
		"no log":        {old(logless), scrub.RepairOptions{Quiet: &none}, nil, "not certain"},
		"overtaken":     {racing, scrub.RepairOptions{Yes: true, Quiet: &none, Grace: &none}, nil, "since the audit"},
		"damaged entry": {old(replaced(t, objects, last, []byte("x"))), scrub.RepairOptions{}, nil, "not certain"},
		"fresh log":     {fresh, scrub.RepairOptions{}, nil, "1m30s ago"},
		"no ages":       {bucketOf(t, objects), scrub.RepairOptions{}, nil, "does not tell"},
		"took over":     {old(alive), scrub.RepairOptions{Yes: true}, led(alive, false), "since the audit"},
		"completed":     {completing, scrub.RepairOptions{Yes: true, Quiet: &none}, led(completing, true), "since the audit"},
	} {
		for _, yes := range []bool{false, true} {
			if (c.between != nil || c.o.Yes) && !yes {
				continue
			}
			c.o.Yes = yes
			before := contents(t, c.b)
			_, err := repaired(t, c.b, c.o, c.between)
			var refused *scrub.RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			after := contents(t, c.b)
			for key := range before {
				if !slices.Equal(before[key], after[key]) {
					t.Errorf("%s: %s was changed", name, key)
				}
			}
		}
	}
}

// TestRepairFencesACoordinatorThatIsAlive: one that nobody noticed cannot complete a checkpoint after a repair.
func TestRepairFencesACoordinatorThatIsAlive(t *testing.T) {
	mem := bucketOf(t, left(t, "heap"))
	littered(t, mem)
	var leader *checkpoint.Log
	inWorld(t, func(ctx context.Context, w world.World) (err error) {
		if leader, err = checkpoint.OpenLog(ctx, w, mem, "leader"); err == nil {
			_, err = leader.TakeOver(ctx)
		}
		if err != nil {
			return err
		}
		r, err := scrub.Audit(ctx, w, old(mem), scrub.Options{Formats: catalog.Formats(), Now: now})
		if err != nil {
			return err
		}
		if done, err := scrub.Repair(ctx, w, old(mem), r, scrub.RepairOptions{Yes: true, Now: now, Owner: "test"}); err != nil || done.Objects != 4 {
			t.Errorf("repaired %+v, %v", done, err)
		}
		if err := leader.Complete(ctx, 9000, checkpoint.MetadataKey(9000, leader.Term())); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("the old leader completes a checkpoint: %v", err)
		}
		return nil
	})
}

// TestTheQuietTimeFollowsTheLog: a job with rare checkpoints counts as dead later.
func TestTheQuietTimeFollowsTheLog(t *testing.T) {
	objects := left(t, "heap")
	b := old(bucketOf(t, objects))
	b.at = map[string]time.Time{}
	r, _ := audit(t, b, scrub.Options{Shallow: true})
	if r.Quiet() != 2*time.Minute {
		t.Errorf("quiet time %v", r.Quiet())
	}
	for i := range r.Log.Entries {
		b.at[checkpoint.EntryKey(i+1)] = now.Add(-24*time.Hour + time.Duration(i)*10*time.Minute)
	}
	if r, _ = audit(t, b, scrub.Options{Shallow: true}); r.Quiet() != 50*time.Minute {
		t.Errorf("quiet time %v with an entry every 10 minutes", r.Quiet())
	}
}

// entries is how many entries the coordinator log has.
func entries(t *testing.T, b store.Bucket) (n uint64) {
	t.Helper()
	for _, err := range b.List(t.Context(), checkpoint.EntryPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}
