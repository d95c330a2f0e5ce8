package backendtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// underSavepoint is a savepoint that is being written.
type underSavepoint struct {
	pending
	form string
}

// fix takes the snapshots of a savepoint and begins to write them.
func (j *job) fix(form string, m *model) *underSavepoint {
	j.h.id++
	u := &underSavepoint{form: form, pending: pending{id: j.h.id, model: m.clone(), persisted: make([]backend.Persisted, len(j.subtasks)), errs: make([]error, len(j.subtasks))}}
	for i, s := range j.subtasks {
		k, ok := s.keyed.(backend.Savepointer)
		j.h.want(ok, "%T takes no savepoints", s.keyed)
		snap, err := k.Savepoint(s.worker.Ctx, backend.SavepointOptions{ID: u.id, Form: form,
			Names: func(n uint64) string {
				return fmt.Sprintf("%s%d/%s-%d/%d", backend.SavepointPrefix, u.id, operator, i, n)
			}})
		j.h.ok(err)
		u.snapshots = append(u.snapshots, snap)
	}
	j.start(&u.pending)
	return u
}

// written waits for a savepoint and looks at its handles: they name objects of its own and nothing else. The subtasks are not
// told of it.
func (j *job) written(u *underSavepoint) *checkpointed {
	for _, s := range j.subtasks {
		j.h.ok(s.loop.Drain(s.worker.Ctx))
	}
	j.h.ok(errors.Join(u.errs...))
	c := &checkpointed{id: u.id, model: u.model}
	for i, s := range j.subtasks {
		h := u.persisted[i].Handle
		j.h.want(h.Checkpoint == u.id && h.Range == s.keyed.Range() && len(h.Delta) == 0, "handle of savepoint %d says %+v", u.id, h)
		j.h.want((h.Backend == backend.Canonical) == (u.form == backend.Canonical), "a %s savepoint is of backend %s", u.form, h.Backend)
		bytes := int64(0)
		for _, ref := range h.Base {
			j.h.want(strings.HasPrefix(ref.Key, fmt.Sprintf("%s%d/", backend.SavepointPrefix, u.id)), "savepoint %d names %s", u.id, ref.Key)
			bytes += ref.Bytes
		}
		p := u.persisted[i]
		j.h.want(p.Checkpointed == bytes && p.Objects == len(h.Base), "savepoint says %d bytes in %d objects, has %d in %d", p.Checkpointed, p.Objects, bytes, len(h.Base))
		c.handles = append(c.handles, h)
	}
	return c
}

// savepoint takes one of the given form.
func (j *job) savepoint(m *model, form string) *checkpointed { return j.written(j.fix(form, m)) }

// own wants that a checkpoint names no object of a savepoint.
func (h *harness) own(c *checkpointed) {
	for _, ref := range objectsOf(c) {
		h.want(!backend.OfSavepoint(ref.Key), "checkpoint %d names %s, which is a savepoint's", c.id, ref.Key)
	}
}

// apart wants that a checkpoint names none of the borrowed objects.
func (h *harness) apart(c *checkpointed, borrowed []backend.ObjectRef) {
	keys := map[string]bool{}
	for _, ref := range borrowed {
		keys[ref.Key] = true
	}
	for _, ref := range objectsOf(c) {
		h.want(!keys[ref.Key], "checkpoint %d names %s, which is borrowed", c.id, ref.Key)
	}
}

// borrowed: what an attempt was opened with is somebody else's, a checkpoint with a log, or a savepoint. Checkpoints after it name
// nothing of it, also where the first of them did not complete or the attempt is repeated. The same handles are opened as the job's own
// too: then checkpoints may name them.
func borrowed(h *harness) {
	for _, form := range []string{"", backend.Canonical, backend.Native} {
		b := h.open(2, nil).bind(newModel())
		b.fill(400)
		b.j.checkpoint(b.m)
		b.fill(200)
		var c *checkpointed
		if form == "" {
			c = b.j.checkpoint(b.m)
		} else {
			c = b.j.savepoint(b.m, form)
		}
		b.j.close()
		for p := 1; p <= 3; p++ {
			h.opened(c, p)
		}
		b = h.borrow(2, c.handles).bind(c.model.clone())
		b.fill(100)
		b.j.abort(b.j.begin(b.m))
		b.fill(100)
		b.j.close()
		b = h.borrow(3, c.handles).bind(c.model.clone())
		b.compare()
		b.fill(100)
		one := b.j.begin(b.m)
		b.fill(50)
		two := b.j.begin(b.m)
		first, err := b.j.finish(one)
		h.ok(err)
		second, err := b.j.finish(two)
		h.ok(err)
		b.fill(50)
		third := b.j.checkpoint(b.m)
		b.j.close()
		for _, ref := range objectsOf(c) {
			h.ok(h.mem.Delete(h.ctx, []string{ref.Key})[0].Err)
		}
		for i, n := range []*checkpointed{first, second, third} {
			b = h.open(i+1, n.handles).bind(n.model.clone())
			b.compare()
			b.j.close()
		}
	}
}

// opened tries c as the job's own, at parallelism p and then at others before anything was materialized.
func (h *harness) opened(c *checkpointed, p int) {
	for i := range 3 {
		b := h.open(1+(p+i)%3, c.handles).bind(c.model.clone())
		b.compare()
		b.fill(60)
		c = b.j.checkpoint(b.m)
		b.j.close()
	}
	b := h.open(2, c.handles).bind(c.model.clone())
	b.compare()
	b.j.close()
}

// only deletes every object that is a savepoint's, or every one that is not.
func (h *harness) only(savepoints bool) {
	for a, err := range h.mem.List(h.ctx, "", "") {
		h.ok(err)
		if backend.OfSavepoint(a.Key) != savepoints {
			h.ok(h.mem.Delete(h.ctx, []string{a.Key})[0].Err)
		}
	}
}

// savepoints of both forms: the state as of their barrier, whatever is written meanwhile; they need nothing but their own objects, and
// nothing needs them once a checkpoint was taken behind them.
func savepoints(h *harness) {
	for _, form := range []string{backend.Canonical, backend.Native} {
		b := h.open(2, nil).bind(newModel())
		b.fill(400)
		b.j.checkpoint(b.m)
		b.fill(200)
		u := b.j.fix(form, b.m)
		b.fill(200)
		c := b.j.written(u)
		after := b.j.checkpoint(b.m)
		h.own(after)
		b.compare()
		b.j.close()
		b = h.open(3, after.handles).bind(after.model.clone())
		b.compare()
		b.j.close()
		h.only(true)
		for p := 1; p <= 4; p++ {
			b := h.borrow(p, c.handles).bind(c.model.clone())
			b.compare()
			b.fill(100)
			b.compare()
			again := b.j.savepoint(b.m, []string{backend.Native, backend.Canonical}[p%2])
			first := b.j.checkpoint(b.m)
			h.own(first)
			b.fill(50)
			second := b.j.checkpoint(b.m)
			h.own(second)
			b.j.close()
			for i, s := range []*checkpointed{again, first, second} {
				r := h.open(i+1, s.handles).bind(s.model.clone())
				r.compare()
				r.j.close()
			}
		}
		b = h.borrow(2, c.handles).bind(c.model.clone())
		last := b.j.checkpoint(b.m)
		b.j.close()
		h.only(false)
		b = h.open(2, last.handles).bind(last.model.clone())
		b.compare()
		b.j.close()
	}
	_, err := h.open(1, nil).bind(newModel()).j.subtasks[0].keyed.(backend.Savepointer).Savepoint(h.ctx, backend.SavepointOptions{ID: 1, Form: "odd"})
	h.refused(err, "an odd form")
}

// savepointPositions: appends go on behind all that ever were, also where the list is empty by then.
func savepointPositions(h *harness) {
	for _, form := range []string{backend.Canonical, backend.Native} {
		b := h.open(2, nil).bind(newModel())
		at := element{listState, 3, "list"}
		var last uint64
		for range 5 {
			last = b.append(at, "x")
		}
		b.deletePrefix(at)
		c := b.j.savepoint(b.m, form)
		b.j.close()
		b = h.open(3, c.handles).bind(c.model.clone())
		b.compare()
		pos := b.append(at, "y")
		h.want(pos > last, "%s: append after the restore gave position %d, %d was in use before", form, pos, last)
		b.j.close()
	}
}

// damagedSavepoint: a flipped bit or a cut is an error that names the object.
func damagedSavepoint(h *harness) {
	b := h.open(2, nil).bind(newModel())
	b.fill(300)
	c := b.j.savepoint(b.m, backend.Canonical)
	b.j.close()
	h.damaged(c)
}

// Named is a backend in a test of several.
type Named struct {
	Name    string
	Factory func(testing.TB) backend.Factory
}

// RunAcross tries that a canonical savepoint of each backend opens in each, at other parallelisms, with the state it was taken at,
// and that the same state gives the same elements in the same places whoever wrote it.
func RunAcross(t *testing.T, all []Named) {
	for _, from := range all {
		for _, to := range all {
			t.Run(from.Name+" to "+to.Name, func(t *testing.T) {
				for seed := range uint64(2) {
					c := test{groups: 32, f: func(h *harness) { across(h, from.Factory(t), to.Factory(t)) }}
					c.run(t, from.Factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
				}
			})
		}
	}
}

func across(h *harness, from, to backend.Factory) {
	h.factory = from
	b := h.open(3, nil).bind(newModel())
	b.fill(500)
	b.j.checkpoint(b.m)
	b.fill(200)
	u := b.j.fix(backend.Canonical, b.m)
	b.fill(100)
	c := b.j.written(u)
	b.j.close()
	h.factory = to
	for _, p := range []int{3, 2, 5, 1} {
		b = h.open(p, c.handles).bind(c.model.clone())
		b.compare()
		b.fill(150)
		b.compare()
		c = b.j.savepoint(b.m, backend.Canonical)
		b.j.close()
		h.factory, from, to = from, to, from
	}
}
