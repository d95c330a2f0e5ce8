// Package backendtest is what every keyed state backend must do, as tests: Run takes a factory and tries its backends in
// simulated worlds, and once in the real one. Worker and Loop are the surroundings of a backend for further tests.
//
// A test runs subtasks of one operator over a strict bucket in memory: it opens them, changes their state, takes
// checkpoints, and opens them again with other key-group ranges. A model, plain Go maps, knows what must be there.
package backendtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// operator is the operator whose state the tests keep.
const operator = "count"

// test is one test and the number of key groups it runs with.
type test struct {
	name   string
	groups int
	f      func(h *harness)
}

func tests() []test {
	return []test{
		{"Elements", 16, elements},
		{"States", 16, states},
		{"WrongUse", 16, wrongUse},
		{"ScanOrder", 16, scanOrder},
		{"DeletePrefix", 16, deletePrefix},
		{"Append", 16, appendPositions},
		{"PutAt", 16, putAt},
		{"TypedState", 32, typedState},
		{"TimeToLive", 32, timeToLive},
		{"EmptyState", 8, emptyState},
		{"LargeValues", 8, largeValues},
		{"SnapshotIsolation", 16, snapshotIsolation},
		{"Rescale", 128, rescale},
		{"ManyKeyGroups", 4096, rescale},
		{"MixedHandles", 16, mixedHandles},
		{"AbortAndPersistAgain", 16, abortAndPersistAgain},
		{"StoreFailure", 16, storeFailure},
		{"DamagedObject", 16, damagedObject},
		{"MissingObject", 16, missingObject},
		{"CloseWhilePersisting", 16, closeWhilePersisting},
		{"Savepoints", 16, savepoints},
		{"Borrowed", 16, borrowed},
		{"SavepointPositions", 16, savepointPositions},
		{"DamagedSavepoint", 16, damagedSavepoint},
		{"Migration", 32, migrations},
		{"MigrationRefused", 32, migrationsRefused},
	}
}

// Run tries the backends that factory makes. Each trial calls it anew. A failure names the seed of its trial, which fails
// again with the same test of the same commit.
func Run(t *testing.T, factory func(testing.TB) backend.Factory) {
	for _, c := range tests() {
		t.Run(c.name, func(t *testing.T) {
			seeds := uint64(3)
			if c.groups > 1000 || testing.Short() {
				seeds = 1
			}
			for seed := range seeds {
				c.run(t, factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
			}
		})
	}
	t.Run("Model", func(t *testing.T) {
		seeds := uint64(24)
		if testing.Short() {
			seeds = 4
		}
		for seed := range seeds {
			c := test{groups: 32, f: func(h *harness) { randomRun(h, 400) }}
			c.run(t, factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
		}
	})
	t.Run("SameSeedSameObjects", func(t *testing.T) {
		c := test{groups: 32, f: func(h *harness) { randomRun(h, 300) }}
		seeds := uint64(3)
		if testing.Short() {
			seeds = 1
		}
		for seed := range seeds {
			var left [2]string
			for i := range left {
				left[i] = c.run(t, factory, seed, world.NewSim(world.SimOptions{Seed: seed}))
			}
			if left[0] != left[1] {
				t.Errorf("seed %d left these objects:\n%s\nand the second time:\n%s", seed, left[0], left[1])
			}
		}
	})
	t.Run("RealWorld", func(t *testing.T) {
		c := test{groups: 32, f: func(h *harness) { randomRun(h, 1500) }}
		c.run(t, factory, 1, world.NewReal(1))
	})
}

// run runs the test in w and returns the list of the objects it left, with their checksums.
func (c test) run(t *testing.T, factory func(testing.TB) backend.Factory, seed uint64, w world.World) string {
	t.Helper()
	mem := store.NewMem()
	h := &harness{w: w, factory: factory(t), mem: mem, bucket: mem, max: c.groups, rng: w.Rand("backendtest"), nap: time.Millisecond}
	if w.Simulated() {
		h.nap = 20 * time.Millisecond
	}
	err := w.Run(func(ctx context.Context) error {
		h.ctx = ctx
		c.f(h)
		return nil
	})
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	return listing(t, mem)
}

func listing(t *testing.T, mem *store.Mem) string {
	t.Helper()
	var b strings.Builder
	for a, err := range mem.List(t.Context(), "", "") {
		var body []byte
		if err == nil {
			body, err = mem.Get(t.Context(), a.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %d %x\n", a.Key, len(body), sha256.Sum256(body))
	}
	return b.String()
}

// harness is what a test works with. A failed expectation panics: it unwinds the test's process, and the world reports it.
type harness struct {
	w       world.World
	ctx     context.Context
	factory backend.Factory
	mem     *store.Mem
	bucket  store.Bucket // what backends get: mem or something around it
	max     int          // key groups: the max parallelism
	rng     *rand.Rand
	attempt uint64
	// borrowed is what attempts are opened with
	borrowed bool
	id       uint64        // of the newest checkpoint
	nap      time.Duration // how long random runs pause at most
	disks    []world.Disk  // of the workers
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

// refused wants an error.
func (h *harness) refused(err error, what string) {
	h.want(err != nil, "%s: no error", what)
}

// wants that err is one of kind and names key.
func (h *harness) wantNamed(err, kind error, key string) {
	h.want(errors.Is(err, kind), "error is %v, want one that is %v", err, kind)
	h.want(strings.Contains(err.Error(), key), "error %q does not name %q", err, key)
}

// checkpointed is a completed checkpoint: where it lies and what must be in it.
type checkpointed struct {
	id      uint64
	handles []backend.StateHandle
	model   *model
}
