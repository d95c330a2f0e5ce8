package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/world"
)

// release is an attempt that runs a version of the programs.
type release struct {
	j       *job
	states  map[*subtask]*versioned
	m       *versionedModel
	version uint32
}

// stored is a checkpoint or savepoint, what must be in it, and the version that took it.
type stored struct {
	handles  []backend.StateHandle
	m        *versionedModel
	version  uint32
	borrowed bool
}

// release opens from with a version of the programs. An error is that of the first state that is refused.
func (h *harness) release(p int, from *stored, version uint32, unnamed bool) (*release, error) {
	h.borrowed = from.borrowed
	j := h.open(p, from.handles)
	h.borrowed = false
	r := &release{j: j, states: map[*subtask]*versioned{}, m: from.m.clone(), version: version}
	for _, s := range j.subtasks {
		states, err := newVersioned(s.keyed, version, unnamed)
		if err != nil {
			j.close()
			return nil, err
		}
		r.states[s] = states
	}
	return r, nil
}

// released is release where it must succeed.
func (h *harness) released(p int, from *stored, version uint32) *release {
	r, err := h.release(p, from, version, h.rng.IntN(2) == 0)
	h.ok(err)
	return r
}

// fill makes n random changes while time goes on.
func (r *release) fill(n int) {
	h := r.j.h
	for range n {
		o, plain := h.holding(r.m)
		r.states[r.j.of(o.group)].change(h, r.m, o, plain)
		r.m.now += h.rng.Int64N(2)
		r.j.breathe()
	}
	r.j.sleep(h.nap)
}

// checkpoint takes one that completes.
func (r *release) checkpoint() *stored {
	return &stored{handles: r.j.checkpoint(newModel()).handles, m: r.m.clone(), version: r.version}
}

// savepoint takes one of the given form.
func (r *release) savepoint(form string) *stored {
	return &stored{handles: r.j.savepoint(newModel(), form).handles, m: r.m.clone(), version: r.version, borrowed: true}
}

// compare reads all that there is, then removes what has expired and counts what is left.
func (r *release) compare() {
	h, live := r.j.h, 0
	for _, o := range r.m.all { // order-free: each is compared alone
		s := r.states[r.j.of(o.group)]
		s.at(r.m, o)
		same := func(what string, want, got any, err error) {
			h.want(err == nil && fmt.Sprint(want) == fmt.Sprint(got), "version %d, %s of %q in %q is %v, %v, want %v", r.version, what, o.key, o.ns, got, err, want)
		}
		one := func(what string, want *int64, got int64, ok bool, err error) {
			h.want(ok == (want != nil), "version %d, %s of %q in %q is there: %t", r.version, what, o.key, o.ns, ok)
			if want != nil {
				same(what, *want, got, err)
			}
		}
		v, ok, err := s.value.Get()
		one("value", o.value, v, ok, err)
		v, ok, err = s.total.Get()
		one("total", o.total, v, ok, err)
		v, ok, err = s.sum.Get()
		one("sum", o.sum, v, ok, err)
		list, err := numbers(s.list.Get)
		same("list", o.list, list, err)
		counts := map[int]int64{}
		err = s.counts.Range(func(k int, v int64) bool { counts[k] = v; return true })
		same("map", o.counts, counts, err)
		live += r.compareMortal(s, o, one, same)
		for at := range o.timers { // order-free: each alone
			there, err := s.timers.Has(at)
			h.want(there && err == nil, "timer of %q at %d is gone (%v)", o.key, at, err)
		}
	}
	r.expire(live)
}

func numbers(get func(func(int64) bool) error) (all []int64, err error) {
	err = get(func(v int64) bool { all = append(all, v); return true })
	return all, err
}

// compareMortal compares what has a time to live, and returns how many elements have not expired.
func (r *release) compareMortal(s *versioned, o *holding, one func(string, *int64, int64, bool, error), same func(string, any, any, error)) (live int) {
	var last *int64
	if o.last != nil && o.last.until > r.m.now {
		last = &o.last.n
		live++
	}
	v, ok, err := s.last.Get()
	one("value with an expiry", last, v, ok, err)
	var recent []int64
	for _, l := range o.recent {
		if l.until > r.m.now {
			recent = append(recent, l.n)
		}
	}
	list, err := numbers(s.recent.Get)
	same("list with expiries", recent, list, err)
	want, got := map[int]int64{}, map[int]int64{}
	for k, l := range o.fresh { // order-free: into a map
		if l.until > r.m.now {
			want[k] = l.n
		}
	}
	err = s.fresh.Range(func(k int, v int64) bool { got[k] = v; return true })
	same("map with expiries", want, got, err)
	return live + len(recent) + len(want)
}

// expire removes what has expired: as many elements must be left as have not, and each in the index of expiries.
func (r *release) expire(live int) {
	h := r.j.h
	var left, indexed int
	for _, s := range r.j.subtasks {
		h.ok(r.states[s].c.Expire(r.m.now))
		for id, spec := range s.keyed.States() {
			n := 0
			for g := s.keyed.Range().From; g < s.keyed.Range().To; g++ {
				h.ok(s.keyed.Scan(backend.StateID(id), g, nil, func(_, _ []byte) bool { n++; return true }))
			}
			switch {
			case spec.Type == backend.Expiries:
				indexed += n
			case slices.Contains([]string{"last", "recent", "fresh"}, spec.Name):
				left += n
			}
			if spec.Type != backend.Expiries && spec.Type != backend.Timers {
				h.want(max(1, spec.Schema.Version) == r.version, "state %s is of %v, want version %d", spec.Name, spec.Schema, r.version)
			}
		}
	}
	h.want(left == live && indexed == live, "%d elements with an expiry are left, %d indexed, want %d", left, indexed, live)
}

// migrations: programs of later versions take over what earlier ones stored, in base and log, at another parallelism, from
// checkpoints and savepoints, and again after a crash before they completed a checkpoint of their own. Programs of earlier versions
// are refused, and leave everything as it was.
func migrations(h *harness) {
	for range 2 {
		at := &stored{m: &versionedModel{all: map[[2]string]*holding{}}, version: 1}
		for life := range 8 {
			version := at.version
			if life > 0 && version < lastVersion {
				version += uint32(h.rng.IntN(3) / 2)
			}
			h.tryOlder(at)
			r := h.released(1+h.rng.IntN(4), at, version)
			r.compare()
			at = r.live(at)
			r.compare()
			if h.rng.IntN(2) == 0 {
				r.j.crash()
			} else {
				r.j.close()
			}
		}
		for p := 1; p <= 3; p++ { // in the end all is as it is stored
			r := h.released(p, at, lastVersion)
			r.compare()
			r.fill(40)
			at = r.checkpoint()
			r.j.close()
		}
	}
}

// tryOlder opens with a program of an earlier version, now and then.
func (h *harness) tryOlder(at *stored) {
	if at.version > 1 && h.rng.IntN(3) == 0 {
		_, err := h.release(1+h.rng.IntN(3), at, at.version-1, false)
		h.refusedSchema(err, "timers", "number version "+fmt.Sprint(at.version), "version "+fmt.Sprint(at.version-1))
	}
}

// live changes state, takes checkpoints and a savepoint now and then, and returns the last of them that completed.
func (r *release) live(at *stored) *stored {
	h := r.j.h
	for h.rng.IntN(4) > 0 {
		r.fill(1 + h.rng.IntN(120))
		switch h.rng.IntN(8) {
		case 0, 1, 2, 3:
			at = r.checkpoint()
		case 4:
			r.j.abort(r.j.begin(newModel()))
		case 5:
			at = r.savepoint([]string{backend.Canonical, backend.Native}[h.rng.IntN(2)])
		case 6:
			one, m := r.j.begin(newModel()), r.m.clone()
			r.fill(20)
			c, err := r.j.finish(one)
			h.ok(err)
			at = &stored{handles: c.handles, m: m, version: r.version}
		}
	}
	return at
}

// refusedSchema wants the error of a state that is refused for its schema. It must not be about a state called wrong, and
// name what parts has.
func (h *harness) refusedSchema(err error, wrong string, parts ...string) {
	h.want(errors.Is(err, backend.ErrSchema), "error %v, want one that is %v", err, backend.ErrSchema)
	for _, part := range parts {
		h.want(strings.Contains(err.Error(), part) && !strings.Contains(err.Error(), fmt.Sprintf("%q", wrong)), "error %q, want one that names %q", err, part)
	}
}

// migrationsRefused: what cannot be converted is one error that names the state and both versions. Nothing of it is stored: the
// next program that can read the state finds it as it was.
func migrationsRefused(h *harness) {
	r := h.released(2, &stored{m: &versionedModel{all: map[[2]string]*holding{}}}, 2)
	r.fill(300)
	first := r.checkpoint()
	r.fill(100)
	at := r.checkpoint()
	r.j.close()
	bad := errors.New("cannot be")
	fails := func(dst, _ []byte) ([]byte, error) { return dst, bad }
	one := func(dst, _ []byte) ([]byte, error) { return append(dst, 'x'), nil }
	open := func(opts ...backend.StateOption) error {
		j := h.open(1+h.rng.IntN(3), at.handles)
		defer j.close()
		var errs []error
		for _, s := range j.subtasks {
			_, err := backend.NewMap(backend.NewContext(s.keyed), "counts", field{3}, number{3}, opts...)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	for what, opts := range map[string][]backend.StateOption{ // order-free: each alone
		"number version 2 and opened as version 1: that is newer":          nil,
		"number version 2 and opened as number version 1: that is newer":   {schema(1, false, true)},
		"number version 2 and opened as other version 2: that is another":  {backend.WithSchema("other", 2)},
		"number version 2 and opened as number version 4: no migration":    {backend.WithSchema("number", 4, step(1, true), step(3, true))},
		"number version 2 and opened as number version 5: no migration le": {backend.WithSchema("number", 5, step(2, true), step(4, true))},
	} {
		h.refusedSchema(open(opts...), "value", `state "counts" is stored as `+what)
	}
	for what, m := range map[string]backend.Migration{ // order-free: each alone
		"cannot be":               {From: 2, To: 3, Value: fails},
		"two map keys become one": {From: 2, To: 3, MapKey: one},
	} {
		err := open(backend.WithSchema("number", 3, m))
		h.want(err != nil && strings.Contains(err.Error(), what) && strings.Contains(err.Error(), `state "counts", from number version 2 to number version 3`), "error %v, want %q", err, what)
	}
	for _, opt := range []backend.StateOption{
		backend.WithSchema("", 2), backend.WithSchema("number", 0), backend.WithSchema("number", 2, step(2, true)),
		backend.WithSchema("number", 3, step(1, true), step(1, true)),
	} {
		err := open(opt)
		h.want(err != nil && !errors.Is(err, backend.ErrSchema), "a wrong declaration gives %v", err)
	}
	r = h.released(3, at, 3)
	r.compare()
	r.fill(50)
	mixed := r.checkpoint()
	r.j.close()
	var parts []backend.StateHandle
	for i, of := range []*stored{first, mixed} {
		parts = append(parts, narrowed(of.handles, r.j.subtasks[2*i].keyed.Range())...)
	}
	_, err := h.tryOpen(1, parts)
	h.refusedSchema(err, "timers", "number version 2", "number version 3", "two parts of one checkpoint")
}

// RunMigrationAcross migrates state while it goes from one backend to another, drawn anew for each life, at another parallelism:
// by savepoints of a form, or, where form is empty, by checkpoints, for backends that open those of each other.
func RunMigrationAcross(t *testing.T, all []Named, form string) {
	for seed := range uint64(6) {
		c := test{groups: 32, f: func(h *harness) {
			at := &stored{m: &versionedModel{all: map[[2]string]*holding{}}, version: 1}
			for _, version := range []uint32{1, 1, 2, 2, 2, 3, 3} {
				h.factory = all[h.rng.IntN(len(all))].Factory(t)
				r := h.released(1+h.rng.IntN(4), at, version)
				r.compare()
				r.fill(60)
				r.checkpoint()
				r.fill(40)
				if at = r.checkpoint(); form != "" {
					at = r.savepoint(form)
				}
				r.j.close()
			}
		}}
		c.run(t, all[0].Factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
	}
}
