package run_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// The tests of this file are named after the cases of docs/known-faults.md.

// watched is a bucket that outlives the runs that close it and notes which keys they write and delete.
type watched struct {
	store.Bucket
	mu            sync.Mutex
	puts, deletes []string
}

func (b *watched) Close() error { return nil }

func (b *watched) note(list *[]string, keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, keys...)
}

func (b *watched) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	b.note(&b.puts, key)
	return b.Bucket.Put(ctx, key, body, o)
}

func (b *watched) Delete(ctx context.Context, keys []string) []store.Deleted {
	b.note(&b.deletes, keys...)
	return b.Bucket.Delete(ctx, keys)
}

// objects are all of the bucket's.
func (b *watched) objects(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for at, err := range b.List(t.Context(), "", "") {
		var body []byte
		if err == nil {
			body, err = b.Get(t.Context(), at.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[at.Key] = body
	}
	return all
}

// provided makes runs take b.
func provided(b store.Bucket) func(context.Context, world.World, string) (store.Bucket, provision.Description, error) {
	return func(context.Context, world.World, string) (store.Bucket, provision.Description, error) {
		return b, provision.Description{Kind: "mem"}, nil
	}
}

// carryOutOn runs a plan on a bucket.
func carryOutOn(t *testing.T, p plan.Plan, b store.Bucket, keep bool) run.Outcome {
	t.Helper()
	d := deps()
	d.Provision = provided(b)
	rd, err := results.Dir(t.TempDir()).CreateRun(run.Name(&p))
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Run(d, p, rd, run.Options{KeepObjects: keep})
	if err = errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestA20RunsOfOneBucketHavePrefixes: what a run deletes when it ends is its own, and leaves the objects of another one as they were.
func TestA20RunsOfOneBucketHavePrefixes(t *testing.T) {
	shared := &watched{Bucket: store.NewMem()}
	first, second := short(t, "sim", "mem"), short(t, "sim", "mem")
	second.Seed++
	carryOutOn(t, second, shared, true)
	theirs, prefix := shared.objects(t), ""
	for key := range theirs {
		prefix, _, _ = strings.Cut(key, "/")
	}
	for key := range theirs {
		if !strings.HasPrefix(key, prefix+"/") {
			t.Errorf("%s does not begin with %s", key, prefix)
		}
	}
	shared.puts, shared.deletes = nil, nil
	carryOutOn(t, first, shared, false)
	own, _, _ := strings.Cut(shared.puts[0], "/")
	for _, key := range slices.Concat(shared.puts, shared.deletes) {
		if own == prefix || !strings.HasPrefix(key, own+"/") {
			t.Fatalf("run %s touches %s; the other one is %s", own, key, prefix)
		}
	}
	if len(theirs) == 0 || len(shared.deletes) == 0 || !maps.EqualFunc(theirs, shared.objects(t), bytes.Equal) {
		t.Errorf("of %d objects of the other run %d are left, after %d deletes", len(theirs), len(shared.objects(t)), len(shared.deletes))
	}
}

// TestB20SameSeedSameObjects: the same plan leaves the same objects, byte for byte, metadata and coordinator log included.
func TestB20SameSeedSameObjects(t *testing.T) {
	for _, name := range []string{"heap", "heap-on", "lsm-on"} {
		if testing.Short() && name == "lsm-on" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var left [2]map[string][]byte
			for i := range left {
				p := short(t, "sim", "mem")
				p.Backend, p.Arm = *backendNamed(name), name
				b := &watched{Bucket: store.NewMem()}
				carryOutOn(t, p, b, true)
				left[i] = b.objects(t)
			}
			for key, body := range left[0] {
				if !bytes.Equal(body, left[1][key]) {
					t.Errorf("%s differs: %d bytes, then %d", key, len(body), len(left[1][key]))
				}
			}
			if len(left[0]) != len(left[1]) || len(left[0]) < 10 {
				t.Errorf("%d objects, then %d", len(left[0]), len(left[1]))
			}
		})
	}
}
