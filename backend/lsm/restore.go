package lsm

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/savepoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// begin opens the database and fills it from the handles.
func (k *keyed) begin(ctx context.Context, o backend.OpenOptions) error {
	if !k.life.enter() {
		return errClosed
	}
	defer k.life.leave()
	w := k.b.e.World
	began := w.Now()
	if err := k.openDB(ctx); err != nil {
		return err
	}
	r := &restorer{k: k}
	ctx = store.WithInfo(ctx, store.Info{Cause: "restore", Who: k.b.e.Worker, Attempt: k.b.e.Attempt})
	if err := r.plan(ctx, o); err != nil {
		return err
	}
	if k.replay != nil && !k.b.o.Lazy && !hasCanonical(o) {
		r.bring(ctx, o, began)
		return nil
	}
	err := r.load(ctx, o)
	if err == nil {
		var more int64
		more, err = savepoint.Read(ctx, k.b.e, o.Handles, o.Range, loader{k})
		r.bytes += more
	}
	if l := k.far; l != nil && err == nil {
		l.began, l.opened = began, l.bytes.Load()
		r.bytes += l.opened
		k.b.e.Spawn("lsm "+k.subtask, func(ctx context.Context) error { return l.complete(ctx, o.Loop) })
	}
	if o.Restored != nil {
		o.Restored.BaseTime, o.Restored.BaseBytes = w.Now()-began, r.bytes
	}
	return err
}

// restorer restores the state of a subtask.
type restorer struct {
	k     *keyed
	parts []*part
	bytes int64
}

// part is what a subtask needs of one snapshot: those of its key groups that groups has.
type part struct {
	ref      backend.ObjectRef // of the manifest
	groups   keygroup.Range
	manifest manifest
}

// hasCanonical tells whether some of the state is in the form of canonical savepoints, which is written element by element.
func hasCanonical(o backend.OpenOptions) bool {
	for _, h := range o.Handles {
		if h.Backend == backend.Canonical {
			return true
		}
	}
	return false
}

// plan finds out what there is, and makes its states, positions and counts known.
func (r *restorer) plan(ctx context.Context, o backend.OpenOptions) error {
	for _, h := range o.Handles {
		for _, ref := range h.Base {
			// The manifest was narrowed as the tables were: it alone decides which key groups are read.
			g := ref.Groups.Intersect(h.Range).Intersect(o.Range)
			if strings.HasSuffix(ref.Key, manifestExt) && !g.Empty() {
				r.parts = append(r.parts, &part{ref: ref, groups: g})
			}
		}
	}
	if err := r.readManifests(ctx); err != nil {
		return err
	}
	for _, p := range r.parts {
		if err := r.adopt(p); err != nil {
			return fmt.Errorf("object %q: %w", p.ref.Key, err)
		}
	}
	return nil
}

// load makes the planned tables part of the database.
func (r *restorer) load(ctx context.Context, o backend.OpenOptions) error {
	objects := r.objects()
	now := objects
	if r.k.b.o.Lazy && o.Loop != nil {
		var err error
		if now, err = r.attachLater(ctx, objects); err != nil {
			return err
		}
	}
	if err := r.download(ctx, now); err != nil {
		return err
	}
	return r.attach(ctx, objects)
}

// readManifests reads all manifests, some at the same time.
func (r *restorer) readManifests(ctx context.Context) error {
	return r.fetch(ctx, len(r.parts), func(i int) object {
		ref := r.parts[i].ref
		return object{ref.Key, ref.Bytes, ref.CRC32C}
	}, func(_ context.Context, i int, body []byte) (err error) {
		p := r.parts[i]
		p.manifest, err = parseManifest(p.ref.Key, body)
		return err
	})
}

// adopt takes over what a manifest says of states and key groups.
func (r *restorer) adopt(p *part) error {
	k := r.k
	for _, spec := range p.manifest.states {
		if _, err := (loader{k}).Register(spec); err != nil {
			return err
		}
	}
	for _, g := range p.manifest.groups {
		if p.groups.Contains(g.group) {
			i := g.group - k.rng.From
			k.positions[i] = max(k.positions[i], g.position)
			k.counts.add(g.group, g.elements, g.bytes)
		}
	}
	return nil
}

// objects lists the tables' objects that are needed, each once, in the order of their first use.
func (r *restorer) objects() []object {
	var all []object
	seen := map[string]bool{}
	for _, p := range r.parts {
		for _, t := range p.manifest.tables {
			o := p.manifest.objects[t.source]
			if t.groups().Intersect(p.groups).Empty() || seen[o.key] {
				continue
			}
			seen[o.key] = true
			all = append(all, o)
		}
	}
	return all
}

func (r *restorer) download(ctx context.Context, objects []object) error {
	return r.fetch(ctx, len(objects), func(i int) object { return objects[i] }, func(ctx context.Context, i int, body []byte) error {
		r.k.b.e.World.Compute(ctx, time.Duration(len(body))*r.k.b.o.Costs.FileByte)
		return r.k.bucket.write(objects[i].key, body)
	})
}

// fetch gets n objects, checks them and gives each to use, some at the same time. After an error no further one is begun;
// that of the first object with an error is returned.
func (r *restorer) fetch(ctx context.Context, n int, object func(i int) object, use func(ctx context.Context, i int, body []byte) error) error {
	w := r.k.b.e.World
	fetches, turns := world.NewGroup(w), world.NewSemaphore(w, int64(r.k.b.o.Parallel))
	errs, sizes := make([]error, n), make([]int64, n)
	var failed atomic.Bool
	var err error
	for i := 0; i < n && !failed.Load(); i++ {
		if err = turns.Acquire(ctx, 1); err != nil {
			break
		}
		o := object(i)
		fetches.Go(ctx, "fetch "+o.key, func(ctx context.Context) error {
			defer turns.Release(1)
			var body []byte
			if body, sizes[i], errs[i] = r.get(ctx, o); errs[i] == nil {
				errs[i] = use(ctx, i, body)
			}
			if errs[i] != nil {
				failed.Store(true)
			}
			return nil
		})
	}
	if waited := fetches.Wait(ctx); err == nil {
		err = waited
	}
	for i, e := range errs {
		r.bytes += sizes[i]
		if err == nil {
			err = e
		}
	}
	return err
}

// get reads an object and compares it with what was written; one that was damaged on the way is read again. n is how many
// bytes came in all.
func (r *restorer) get(ctx context.Context, o object) (body []byte, n int64, err error) {
	e := &r.k.b.e
	err = store.Reread(ctx, e.World, func() (uint32, error) {
		b, err := e.Bucket.Get(ctx, o.key)
		body, n = b, n+int64(len(b))
		got := castagnoli(b)
		switch {
		case err != nil:
			return 0, fmt.Errorf("get object %q: %w", o.key, err)
		case int64(len(b)) != o.bytes:
			return got, damaged(o.key, "ends at offset %d, should at %d", len(b), o.bytes)
		case got != o.crc:
			return got, damaged(o.key, "checksum %08x, should be %08x: damaged in %s", got, o.crc, locate(b))
		}
		return got, nil
	})
	return body, n, err
}

// attach makes the tables part of the database, layer by layer. The snapshots' key groups are disjoint, so that their
// layers can be put side by side.
func (r *restorer) attach(ctx context.Context, objects []object) error {
	k := r.k
	var layers [][]pebble.ExternalFile
	for _, p := range r.parts {
		for _, t := range p.manifest.tables {
			b, ok := t.clip(p.groups)
			if !ok {
				continue
			}
			for len(layers) <= t.layer {
				layers = append(layers, nil)
			}
			key := p.manifest.objects[t.source].key
			if far := k.bucket.far[key]; far != nil {
				far.within(b)
			}
			layers[t.layer] = append(layers[t.layer], pebble.ExternalFile{
				Locator: locator, ObjName: key, Size: uint64(max(1, t.size)),
				StartKey: b.from, EndKey: b.to, EndKeyIsInclusive: b.closed, HasPointKey: true,
			})
		}
	}
	for _, files := range layers {
		if len(files) == 0 {
			continue
		}
		if err := k.db.IngestExternalFiles(ctx, files); err != nil {
			return fmt.Errorf("attach tables to %s: %w", k.subtask, err)
		}
		k.b.e.World.Compute(ctx, k.b.o.Costs.Attach) // not by the loop's account: it may be replaying
	}
	for _, o := range objects {
		for _, n := range k.db.ObjProvider().GetExternalObjects(locator, o.key) {
			k.bucket.objects[pebbleFile(n)] = o
		}
	}
	return nil
}
