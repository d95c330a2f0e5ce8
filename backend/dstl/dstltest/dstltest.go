// Package dstltest is what every durable short-term log must do, as tests. Run takes a constructor and tries its logs in
// simulated worlds, against a model for random sequences of operations, and once in the real world.
package dstltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// New makes the log under test.
type New func(e backend.WorkerEnv, o dstl.Options) (dstl.Log, error)

// Run tries the logs that newLog makes, on the object store.
func Run(t *testing.T, newLog New) { runOn(t, newLog, dstl.OpenDFS) }

// runOn tries logs on a storage.
func runOn(t *testing.T, newLog New, open dstl.StorageOpener) {
	for _, c := range []struct {
		name string
		f    func(h *harness)
	}{
		{"SequenceNumbers", sequenceNumbers},
		{"WrongUse", wrongUse},
		{"ReadBack", readBack},
		{"NarrowReadsLess", narrowReadsLess},
		{"Coalesces", coalesces},
		{"Preemptive", preemptive},
		{"Gathered", gathered},
		{"GatheredBlocks", gatheredBlocks},
		{"BatchesWriters", batchesWriters},
		{"BatchSizeEndsTheWait", batchSizeEndsTheWait},
		{"FailedUploadIsNoPoison", failedUploadIsNoPoison},
		{"FailedUploadTouchesNobodyElse", failedUploadTouchesNobodyElse},
		{"CancelLosesNothing", cancelLosesNothing},
		{"RetriesPreemptive", retriesPreemptive},
		{"TruncateKeepsSharedObjects", truncateKeepsSharedObjects},
		{"TruncateKeepsPinned", truncateKeepsPinned},
		{"CoveredIsNotUploaded", coveredIsNotUploaded},
		{"CoverKeepsPinned", coverKeepsPinned},
		{"ConfirmedIsNeverDeleted", confirmedIsNeverDeleted},
		{"LostConfirmIsNeverDeleted", lostConfirmIsNeverDeleted},
		{"ResetIsReused", resetIsReused},
		{"SubsumedUnclearIsNeverDeleted", subsumedUnclearIsNeverDeleted},
		{"RunningOutlivesSubsumption", runningOutlivesSubsumption},
		{"CloseLeavesNoOrphan", closeLeavesNoOrphan},
		{"CloseDuringUpload", closeDuringUpload},
		{"CloseTruncates", closeTruncates},
		{"InFlightLimit", inFlightLimit},
		{"BlocksAndUnblocks", blocksAndUnblocks},
		{"HedgeWins", hedgeWins},
		{"HedgeLoses", hedgeLoses},
		{"HedgeFails", hedgeFails},
		{"HedgesKeepTheirShare", hedgesKeepTheirShare},
		{"Damaged", damaged},
		{"Events", events},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				run(t, newLog, open, world.NewSim(world.SimOptions{Seed: seed}), seed, c.f)
			}
		})
	}
	t.Run("Model", func(t *testing.T) {
		seeds := uint64(150)
		if testing.Short() {
			seeds = 30
		}
		for seed := range seeds {
			run(t, newLog, open, world.NewSim(world.SimOptions{Seed: seed}), seed, func(h *harness) { randomRun(h, 12) })
		}
	})
	t.Run("RealWorld", func(t *testing.T) {
		run(t, newLog, open, world.NewReal(1), 1, func(h *harness) { randomRun(h, 12) })
	})
}

func run(t *testing.T, newLog New, open dstl.StorageOpener, w world.World, seed uint64, f func(h *harness)) {
	t.Helper()
	h := &harness{w: w, newLog: newLog, inj: store.NewInjector(w), rng: w.Rand("dstltest")}
	err := w.Run(func(ctx context.Context) error {
		h.ctx = ctx
		e := dstl.StorageEnv{World: w, Store: store.NewMem(), Disk: diskFor(t, w)}
		storage, err := open(ctx, e)
		h.ok(err)
		h.raw = dstl.Over(e.Store, storage)
		bucket := store.WithFaults(h.raw, h.inj, w)
		h.worker = backendtest.NewWorker(ctx, w, bucket, "worker-0", 1)
		f(h)
		if h.log != nil {
			h.ok(h.log.Close(h.worker.Ctx))
		}
		return errors.Join(h.worker.Stop(ctx), storage.Close(ctx))
	})
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
}

// groups is the range of all writers of the tests.
var groups = keygroup.Range{From: 2, To: 10} // read-only: a value

// states are those that tests write to.
func states() []dstl.State {
	return []dstl.State{
		{ID: 0, Spec: backend.StateSpec{Name: "count", Type: backend.Value, Access: backend.Point}},
		{ID: 4, Spec: backend.StateSpec{Name: "events", Type: backend.List, Access: backend.Ordered}},
	}
}

// harness is what a test works with. A failed expectation panics; the world reports it.
type harness struct {
	w      world.World
	ctx    context.Context
	newLog New
	raw    store.Bucket // what the log lies in, without faults
	inj    *store.Injector
	rng    *rand.Rand
	worker *backendtest.Worker
	log    dstl.Log
}

// ok wants no error.
func (h *harness) ok(err error) {
	if err != nil {
		panic(err)
	}
}

// want wants cond.
func (h *harness) want(cond bool, format string, args ...any) {
	if !cond {
		panic(fmt.Errorf(format, args...))
	}
}

// is wants an error of kind.
func (h *harness) is(err, kind error) {
	h.want(errors.Is(err, kind), "error is %v, want one that is %v", err, kind)
}

// open makes the log.
func (h *harness) open(o dstl.Options) {
	log, err := h.newLog(h.worker.Env, o)
	h.ok(err)
	h.log = log
}

// writer opens one and defines its states.
func (h *harness) writer(subtask string) *logWriter {
	w, err := h.log.Writer(dstl.WriterOptions{Subtask: subtask, Range: groups})
	h.ok(err)
	for _, s := range states() {
		w.Define(s)
	}
	return &logWriter{Writer: w, h: h, rng: h.w.Rand("writer/" + subtask), state: elements{}, at: map[uint64]elements{0: {}}}
}

// keys lists what the store holds.
func (h *harness) keys() (keys []string) {
	for a, err := range h.raw.List(h.ctx, "", "") {
		h.ok(err)
		keys = append(keys, a.Key)
	}
	return keys
}

// break makes puts fail until the returned function is called.
func (h *harness) breakPuts() (heal func()) {
	return h.inj.Add(store.Rule{Ops: []string{"put"}, Status: 500})
}

// settle gives the log's processes time to do what they have to.
func (h *harness) settle() { h.ok(h.w.Sleep(h.ctx, 100*time.Millisecond)) }

// elements is state: place to value.
type elements map[string]string

func place(a backend.Addr, key []byte) string { return fmt.Sprintf("%d/%d/%s", a.State, a.Group, key) }

func (e elements) apply(op dstl.Op, a backend.Addr, pos uint64, value []byte) {
	switch op {
	case dstl.OpPut:
		e[place(a, a.Key)] = string(value)
	case dstl.OpAppend:
		e[place(a, binary.BigEndian.AppendUint64(bytes.Clone(a.Key), pos))] = string(value)
	case dstl.OpDelete:
		delete(e, place(a, a.Key))
	case dstl.OpDeletePrefix:
		prefix := place(a, a.Key)
		maps.DeleteFunc(e, func(k, _ string) bool { return strings.HasPrefix(k, prefix) })
	}
}

// narrowed is the part of e in r.
func (e elements) narrowed(r keygroup.Range) elements {
	out := maps.Clone(e)
	maps.DeleteFunc(out, func(k, _ string) bool {
		var s, g int
		_, err := fmt.Sscanf(k, "%d/%d/", &s, &g)
		return err != nil || !r.Contains(keygroup.ID(g))
	})
	return out
}

// logWriter is a writer with the state that its changes have led to, now and at some sequence numbers.
type logWriter struct {
	dstl.Writer
	h     *harness
	rng   *rand.Rand
	state elements
	at    map[uint64]elements
	pos   uint64
}

// append logs a change and applies it to the model.
func (w *logWriter) append(op dstl.Op, a backend.Addr, value []byte) {
	w.pos++
	w.h.ok(w.Append(op, a, w.pos, value))
	w.state.apply(op, a, w.pos, value)
}

// gather is append by Gather.
func (w *logWriter) gather(op dstl.Op, a backend.Addr, value []byte) {
	w.pos++
	w.h.ok(w.Gather(op, a, w.pos, value))
	w.state.apply(op, a, w.pos, value)
}

// put sets a key to a value of some length.
func (w *logWriter) put(key string, n int) {
	a := backend.Addr{Group: groups.From + keygroup.ID(len(key)%groups.Len()), Key: []byte(key)}
	w.append(dstl.OpPut, a, bytes.Repeat([]byte{byte('a' + w.rng.IntN(26))}, n))
}

// random appends n random changes.
func (w *logWriter) random(n int) {
	r := w.rng
	for range n {
		a := backend.Addr{Group: groups.From + keygroup.ID(r.IntN(groups.Len())), Key: []byte{byte('a' + r.IntN(8)), byte('a' + r.IntN(3))}}
		value := make([]byte, r.IntN(40))
		for i := range value {
			value[i] = byte(r.IntN(256))
		}
		switch k := r.IntN(12); {
		case k < 2:
			w.gather(dstl.OpPut, a, value)
			if w.Room(int64(r.IntN(100))) <= 0 {
				w.Early()
			}
		case k < 6:
			w.append(dstl.OpPut, a, value)
		case k < 8:
			w.append(dstl.OpDelete, a, nil)
		case k < 11:
			a.State = 4
			w.append(dstl.OpAppend, a, value)
		default:
			a.State, a.Key = 4, a.Key[:r.IntN(3)]
			w.append(dstl.OpDeletePrefix, a, nil)
		}
	}
}

// next is Next; the model's state there is kept.
func (w *logWriter) next() uint64 {
	n := w.Next()
	w.at[n] = maps.Clone(w.state)
	return n
}

// cut is Cut; the model's state there is kept.
func (w *logWriter) cut(from, checkpoint uint64) uint64 {
	to, err := w.Cut(from, checkpoint)
	w.h.ok(err)
	w.at[to] = maps.Clone(w.state)
	return to
}

// persist must succeed. The references must be contiguous and reach from from to the cut.
func (w *logWriter) persist(from, checkpoint uint64) dstl.Persisted {
	p, err := w.Persist(w.h.worker.Ctx, from, checkpoint)
	w.h.ok(err)
	return p
}

// checkpoint cuts and persists.
func (w *logWriter) checkpoint(from, id uint64) dstl.Persisted {
	to := w.cut(from, id)
	p := w.persist(from, id)
	w.contiguous(p.Refs, from, to)
	return p
}

// contiguous wants that refs cover [from, to).
func (w *logWriter) contiguous(refs []backend.ObjectRef, from, to uint64) {
	for _, r := range refs {
		w.h.want(r.Log == w.Name() && r.From == from && r.To > from, "reference to %s [%d,%d), want %s from %d", r.Log, r.From, r.To, w.Name(), from)
		w.h.want(r.Offset >= 0 && r.Length > 0 && r.Offset+r.Length <= r.Bytes, "reference to %d bytes at %d of %d", r.Length, r.Offset, r.Bytes)
		from = r.To
	}
	w.h.want(from == to, "references reach to %d, want %d", from, to)
}

// replay is a Visitor that applies changes to a state.
type replay struct {
	state elements
	specs []dstl.State
}

func (r *replay) States(s []dstl.State) error {
	r.specs = s
	return nil
}

func (r *replay) Apply(c *dstl.Change) error {
	if !slices.ContainsFunc(r.specs, func(s dstl.State) bool { return s.ID == c.State }) {
		return fmt.Errorf("change of state %d, which the part does not define", c.State)
	}
	r.state.apply(c.Op, backend.Addr{State: c.State, Group: c.Group, Key: c.Key}, c.Pos, c.Value)
	return nil
}

// holds wants that base with refs replayed is the state want, in r.
func (h *harness) holds(base elements, refs []backend.ObjectRef, r keygroup.Range, want elements) {
	v := &replay{state: base.narrowed(r)}
	_, err := h.log.Read(h.worker.Ctx, refs, r, v)
	h.ok(err)
	want = want.narrowed(r)
	h.want(maps.Equal(v.state, want), "replay of %d parts in %v gives %v, want %v", len(refs), r, v.state, want)
}

// restores wants that a checkpoint of w that began at from and was cut at to can be read.
func (w *logWriter) restores(refs []backend.ObjectRef, from, to uint64) {
	w.h.holds(w.at[from], refs, groups, w.at[to])
}
