package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// RunDamagedReads tries that a backend never takes damaged bytes for its state: whichever read of a restore brings a
// flipped byte, it is made again and the state is what it was; when no read comes whole, opening fails.
func RunDamagedReads(t *testing.T, factory func(testing.TB) backend.Factory) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		c := test{groups: 32, f: damagedReads}
		c.run(t, factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
	}
}

// damagedPositions is how often each read of a restore is damaged, each time in another place.
const damagedPositions = 4

func damagedReads(h *harness) {
	b := h.open(2, nil).bind(newModel())
	b.fill(300)
	b.j.checkpoint(b.m)
	b.fill(200)
	c := b.j.checkpoint(b.m)
	b.j.close()

	injector := store.NewInjector(h.w)
	h.bucket = store.WithFaults(h.mem, injector, h.w)
	restored := func(p int) {
		b := h.open(p, c.handles).bind(c.model.clone())
		b.compare()
		b.j.close()
	}
	for p := 1; p <= 3; p++ {
		before := injector.Asked(history.OpGet)
		restored(p)
		reads := injector.Asked(history.OpGet) - before
		h.want(reads > 0, "a restore read nothing")
		for n := int64(1); n <= reads; n++ {
			for i := range damagedPositions {
				r := store.Rule{Name: fmt.Sprintf("%d/%d/%d", p, n, i), Ops: []string{history.OpGet}, Request: n, Flip: true}
				remove := injector.Add(r)
				restored(p)
				remove()
				h.want(injector.Hits(r.Name) == 1, "read %d of %d was not damaged", n, reads)
			}
		}
		// One read in four is damaged, those that are made again too.
		remove := injector.Add(store.Rule{Name: fmt.Sprintf("%d/some", p), Ops: []string{history.OpGet}, Share: 0.25, Flip: true})
		restored(p)
		remove()
		remove = injector.Add(store.Rule{Name: fmt.Sprintf("%d/all", p), Ops: []string{history.OpGet}, Flip: true})
		j, err := h.tryOpen(p, c.handles)
		if err == nil {
			j.close()
		}
		remove()
		h.want(errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrCorrupt), "with every read damaged: %v", orNone(err))
	}
	h.bucket = h.mem
}

// RunDamagedObjects tries every byte of every object that a restore of a small state reads: one that came flipped, or an end
// that did not come, is read again and the state is what it was (of these it tries some); where it stays so, opening fails
// with an error that names object and offset. What no restore reads may be damaged: then the state is what it was. The state
// comes from a checkpoint or, where form is set, from a savepoint of that form. It tries one byte in stride only.
func RunDamagedObjects(t *testing.T, factory func(testing.TB) backend.Factory, form string, stride int) {
	for _, cut := range []bool{false, true} {
		t.Run(form+map[bool]string{false: "flipped", true: "cut"}[cut], func(t *testing.T) {
			tried := 0
			c := test{groups: 8, f: func(h *harness) { tried = damagedObjects(h, form, cut, stride) }}
			c.run(t, factory, 1, world.NewSim(world.SimOptions{Seed: 1}))
			t.Logf("%d places tried", tried)
		})
	}
}

func damagedObjects(h *harness, form string, cut bool, stride int) (tried int) {
	b := h.open(1, nil).bind(newModel())
	b.fill(8)
	b.j.checkpoint(b.m)
	b.fill(4)
	take := b.j.checkpoint
	if form != "" {
		take = func(m *model) *checkpointed { return b.j.savepoint(m, form) }
	}
	c := take(b.m)
	b.j.close()
	h.want(len(objectsOf(c)) > 0, "there are no objects")
	tryAt := func(ref backend.ObjectRef, at int64, p int) {
		d := &damagedBucket{Bucket: h.mem, key: ref.Key, at: at, cut: cut, times: 1}
		h.bucket = d
		if tried%8 == 0 { // where it is makes no difference here
			again := h.open(p, c.handles).bind(c.model.clone())
			again.compare()
			again.j.close()
		}
		d.times = 1 << 30
		j, err := h.tryOpen(p, c.handles)
		if err == nil {
			h.want(at < ref.Offset || at >= ref.Offset+ref.Length, "damage at offset %d of %s was not found", at, ref.Key)
			j.bind(c.model.clone()).compare()
			j.close()
			return
		}
		h.wantNamed(err, store.ErrCorrupt, ref.Key)
		h.want(offset.MatchString(err.Error()), "damage at offset %d of %s: error %q names no offset", at, ref.Key, err)
	}
	seen := map[string]bool{}
	for _, ref := range objectsOf(c) {
		if seen[ref.Key] {
			continue
		}
		seen[ref.Key] = true
		for at := int64(0); at < ref.Bytes; at += int64(stride) {
			tryAt(ref, at, 1)
			if at%(int64(stride)*16) == 0 {
				tryAt(ref, at, 3)
			}
			tried++
		}
	}
	h.bucket = h.mem
	return tried
}

// offset is how an error says where an object is damaged.
var offset = regexp.MustCompile(`offset \d+`) // read-only: a compiled constant

// damagedBucket damages one byte of one object, or all from it on, in as many reads as times says.
type damagedBucket struct {
	store.Bucket
	key   string
	at    int64
	cut   bool
	times int
}

func (d *damagedBucket) Get(ctx context.Context, key string) ([]byte, error) {
	body, err := d.Bucket.Get(ctx, key)
	return d.damage(key, 0, body, err)
}

func (d *damagedBucket) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	body, err := d.Bucket.GetRange(ctx, key, off, n)
	return d.damage(key, off, body, err)
}

func (d *damagedBucket) damage(key string, off int64, body []byte, err error) ([]byte, error) {
	at := d.at - off
	if err != nil || key != d.key || at < 0 || at >= int64(len(body)) || d.times == 0 {
		return body, err
	}
	d.times--
	if d.cut {
		return body[:at:at], nil
	}
	body = bytes.Clone(body)
	body[at] ^= 0x10
	return body, nil
}
