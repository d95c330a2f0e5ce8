package changelog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
)

// serial hides what a backend can do beside Open, so that its log is replayed after its base.
type serial struct{ backend.Factory }

func (f serial) ForWorker(ctx context.Context, e backend.WorkerEnv) (backend.Backend, error) {
	b, err := f.Factory.ForWorker(ctx, e)
	return struct{ backend.Backend }{b}, err
}

// mixed is a subtask with a point and an ordered state, and what they must hold.
type mixed struct {
	*sub
	rng     *rand.Rand
	ordered backend.StateID
	point   map[string]string
	lists   map[string][]string
}

const mixedKeys = 1500

func (r *rig) openMixed(rng *rand.Rand, handles ...backend.StateHandle) *mixed {
	m := &mixed{sub: r.open(0, 1, handles...), rng: rng, point: map[string]string{}, lists: map[string][]string{}}
	var err error
	m.ordered, err = m.Register(backend.Spec("l", backend.List))
	ok(err)
	return m
}

func (m *mixed) at(state backend.StateID, i int) backend.Addr {
	return backend.Addr{State: state, Group: keygroup.ID(i % 16), Key: binary.BigEndian.AppendUint32(nil, uint32(i))}
}

// change makes n random changes: mostly values that an lsm keeps in rows, more of them than those hold, some that it does not, some
// deletions, and lists.
func (m *mixed) change(n int) {
	for range n {
		i := m.rng.IntN(mixedKeys)
		value := make([]byte, m.rng.IntN(300))
		if m.rng.IntN(200) == 0 {
			value = make([]byte, 20_000)
		}
		for j := range value {
			value[j] = byte(m.rng.Uint32())
		}
		key := fmt.Sprint(i)
		switch m.rng.IntN(20) {
		case 0:
			ok(m.Delete(m.at(m.state, i)))
			delete(m.point, key)
		case 1:
			_, err := m.Append(m.at(m.ordered, i%50), value)
			ok(err)
			m.lists[fmt.Sprint(i%50)] = append(m.lists[fmt.Sprint(i%50)], string(value))
		case 2:
			ok(m.DeletePrefix(m.at(m.ordered, i%50)))
			delete(m.lists, fmt.Sprint(i%50))
		default:
			ok(m.Put(m.at(m.state, i), value))
			m.point[key] = string(value)
		}
	}
}

// holdsAll compares all with the model.
func (m *mixed) holdsAll(point map[string]string, lists map[string][]string) {
	n, bytes := 0, 0
	for i := range mixedKeys {
		v, there, err := m.Get(m.at(m.state, i))
		ok(err)
		w, is := point[fmt.Sprint(i)]
		want(there == is && string(v) == w, "element %d has %d bytes (%t), want %d (%t)", i, len(v), there, len(w), is)
		if is {
			n, bytes = n+1, bytes+4+len(w)
		}
	}
	for i := range 50 {
		var got []string
		a := m.at(m.ordered, i)
		ok(m.Scan(a.State, a.Group, a.Key, func(_, v []byte) bool { got = append(got, string(v)); return true }))
		w := lists[fmt.Sprint(i)]
		want(slices.Equal(got, w), "list %d has %d elements, want %d", i, len(got), len(w))
		for _, e := range w {
			n, bytes = n+1, bytes+4+8+len(e)
		}
	}
	g := m.Gauges()
	want(g.Elements == int64(n) && g.LiveBytes == int64(bytes), "gauges say %d elements of %d bytes, want %d of %d", g.Elements, g.LiveBytes, n, bytes)
}

// TestReplayBesideTheBase: a log that is replayed while the base is still on its way gives what replaying it afterwards gives, and
// what the model has; counts and positions too. Whichever of them comes first.
func TestReplayBesideTheBase(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		nested := lsm.New(lsm.Options{FileBytes: 64 << 10, CountEvery: 1, RowBytes: 256 << 10, MemtableBytes: 128 << 10})
		for _, c := range []struct {
			name   string
			nested backend.Factory
			format string
			delay  string // of requests for keys that begin with it
		}{
			{"serial", serial{nested}, lsm.Name, ""},
			{"beside", nested, lsm.Name, ""},
			{"base late", nested, lsm.Name, "base/"},
			{"log late", nested, lsm.Name, "log/"},
			{"heap", heap.New(heap.Options{}), heap.Name, "base/"},
		} {
			simulateSeed(t, seed, func(r *rig) {
				defer func() {
					if t.Failed() {
						t.Logf("seed %d, %s", seed, c.name)
					}
				}()
				replayRandomly(r, c.nested, c.format, c.delay, seed)
			})
		}
	}
}

// replayRandomly makes a base and a log of several change sets, and restores from them.
func replayRandomly(r *rig, nested backend.Factory, format, delay string, seed uint64) {
	f := changelog.New(changelog.Options{Nested: nested, NestedName: format, Materialize: interval, Preemptive: 16 << 10})
	r.start(f)
	m := r.openMixed(rand.New(rand.NewPCG(seed, 5)))
	m.change(1500)
	m.checkpoint(1)
	m.sleep(interval) // the base
	var p backend.Persisted
	for id := uint64(2); id < 6; id++ {
		m.change(1 + m.rng.IntN(1500))
		p = m.checkpoint(id)
	}
	want(len(p.Handle.Base) > 0 && len(p.Handle.Delta) > 1, "base of %d objects, log of %d parts", len(p.Handle.Base), len(p.Handle.Delta))
	point, lists := m.point, m.lists
	r.end(m.sub)

	if delay != "" {
		r.inj.Add(store.Rule{Ops: []string{"get"}, Prefix: delay, Delay: time.Second})
	}
	r.start(f)
	again := r.openMixed(m.rng, p.Handle)
	again.holdsAll(point, lists)
	for i := range 50 { // behind what is there: positions go on
		_, err := again.Append(again.at(again.ordered, i), []byte("new"))
		ok(err)
		lists[fmt.Sprint(i)] = append(lists[fmt.Sprint(i)], "new")
	}
	again.holdsAll(point, lists)
	r.end(again.sub)
}

// TestBaseAndLogComeTogether: a second for each request of the base and one for those of the log are not two; a base that never comes
// fails the restore and leaves no process.
func TestBaseAndLogComeTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		nested   backend.Factory
		together bool
	}{{"beside", lsm.New(lsm.Options{}), true}, {"serial", serial{lsm.New(lsm.Options{})}, false}} {
		simulate(t, func(r *rig) {
			f := changelog.New(changelog.Options{Nested: c.nested, NestedName: lsm.Name, Materialize: interval})
			r.start(f)
			m := r.openMixed(rand.New(rand.NewPCG(1, 5)))
			m.change(500)
			m.checkpoint(1)
			m.sleep(interval)
			m.change(500)
			h := m.checkpoint(2).Handle
			point, lists := m.point, m.lists
			r.end(m.sub)

			heal := r.inj.Add(store.Rule{Ops: []string{"get"}, Delay: time.Second})
			r.start(f)
			m = r.openMixed(m.rng, h)
			m.holdsAll(point, lists)
			// The manifest is a request of its own, before the tables.
			took := m.stats.BaseTime + m.stats.ReplayTime
			want((took < 2500*time.Millisecond) == c.together, "%s: the restore took %v (%v and %v)", c.name, took, m.stats.BaseTime, m.stats.ReplayTime)
			want(m.stats.BaseTime >= 2*time.Second && m.stats.BaseBytes > 0 && m.stats.DeltaBytes > 0, "%s: %+v", c.name, m.stats)
			r.end(m.sub)
			heal()

			for _, object := range h.Base {
				r.inj.Add(store.Rule{Ops: []string{"get"}, Prefix: object.Key, Status: 403, Request: 1})
				r.start(f)
				loop := backendtest.NewLoop(r.worker.Ctx, r.w)
				_, err := r.b.Open(r.worker.Ctx, backend.OpenOptions{Operator: "count", Subtask: "count-0", Range: keygroup.Range{To: 16},
					Handles: []backend.StateHandle{h}, Loop: loop})
				want(errors.Is(err, store.ErrDenied), "%s: a restore without %s gave %v", c.name, object.Key, err)
				ok(loop.Close(r.ctx))
				ok(r.b.Close(r.worker.Ctx))
				ok(r.worker.Stop(r.ctx))
			}
		})
	}
}
