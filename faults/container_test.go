package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// fakeServer is a server whose container is made up: its bucket hangs while it is paused and fails while it is down.
type fakeServer struct {
	*store.Mem
	w     world.World
	state string
	calls []string
	fail  error         // of the next step
	takes time.Duration // of a put, in addition
}

func (s *fakeServer) step(name, state string) error {
	s.calls = append(s.calls, name)
	if s.fail != nil {
		return s.fail
	}
	s.state = state
	return nil
}

func (s *fakeServer) Pause(context.Context) error  { return s.step("pause", "paused") }
func (s *fakeServer) Resume(context.Context) error { return s.step("resume", "up") }
func (s *fakeServer) Stop(context.Context) error   { return s.step("stop", "down") }
func (s *fakeServer) Kill(context.Context) error   { return s.step("kill", "down") }
func (s *fakeServer) Start(ctx context.Context) error {
	if s.state == "down" {
		if err := s.w.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return s.step("start", "up")
}

func (s *fakeServer) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	if err := s.w.Sleep(ctx, s.takes); err != nil {
		return err
	}
	for s.state == "paused" {
		if err := s.w.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	if s.state == "down" {
		return store.ErrUnavailable
	}
	return s.Mem.Put(ctx, key, body, o)
}

// scene is a system and a container fault in force from 1 s on.
type scene struct {
	server *fakeServer
	active faults.Active
	proof  string
	at     time.Duration // of the proof
}

// traffic is what the system asks of the store, until it is stopped.
type traffic func(ctx context.Context, w world.World, s *fakeServer, b store.Bucket)

// busy puts an object each 100 ms.
func busy(ctx context.Context, w world.World, _ *fakeServer, b store.Bucket) {
	for w.Sleep(ctx, 100*time.Millisecond) == nil {
		_ = b.Put(ctx, "k", nil, store.PutOptions{}) // the watchers see how it goes
	}
}

// idle asks nothing.
func idle(context.Context, world.World, *fakeServer, store.Bucket) {}

// one puts an object that is under way when the fault begins, and waits for it.
func one(ctx context.Context, w world.World, s *fakeServer, b store.Bucket) {
	s.takes = 200 * time.Millisecond
	if w.Sleep(ctx, 900*time.Millisecond) == nil {
		_ = b.Put(ctx, "k", nil, store.PutOptions{})
	}
}

// play runs it for the given time, then heals and calls f.
func play(t *testing.T, make faults.Constructor, system traffic, force time.Duration, f func(ctx context.Context, s *scene, w world.World)) {
	t.Helper()
	w := world.NewSim(world.SimOptions{Seed: 5})
	err := w.Run(func(ctx context.Context) error {
		s := &scene{server: &fakeServer{Mem: store.NewMem(), w: w, state: "up"}}
		var watchers faults.Watchers
		b := store.WithHooks(s.server, store.Hooks{
			Begin: func(ctx context.Context, c store.Call) {
				watchers.Observe(ctx, &history.Event{Kind: history.StorePutBegin, Actor: "worker-0", Text: c.Key, At: w.Now()})
			},
			End: func(ctx context.Context, c store.Call, err error) {
				e := &history.Event{Kind: history.StorePutEnd, Actor: "worker-0", Text: c.Key, At: w.Now()}
				if err != nil {
					e.Error = err.Error()
				}
				watchers.Observe(ctx, e)
			},
		})
		running, stop := w.WithCancel(ctx)
		group := world.NewGroup(w)
		group.Go(running, "system", func(ctx context.Context) error {
			system(ctx, w, s.server, b)
			return nil
		})
		if err := w.Sleep(ctx, time.Second); err != nil {
			return err
		}
		fault, err := make(faults.Spec{ID: "f", Where: "store"})
		if err != nil {
			return err
		}
		err = fault.Inject(ctx, faults.Env{World: w, Probe: s.server, StoreServer: s.server, Watch: watchers.Watch,
			InForce: func(a faults.Active) { s.active = a },
			Prove:   func(_ context.Context, evidence string) { s.proof, s.at = evidence, w.Now() }})
		if err != nil {
			return err
		}
		if err := w.Sleep(ctx, force); err != nil {
			return err
		}
		f(ctx, s, w)
		stop(errors.New("the end"))
		return group.Wait(ctx)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestContainerFaultsStrikeAndHeal(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  faults.Constructor
		calls string
		proof string
		from  time.Duration // the earliest proof
	}{
		{"container-pause", faults.NewContainerPause, "pause start", "has had no answer for", 1_500 * time.Millisecond},
		{"container-stop", faults.NewContainerStop, "stop start", "store-put-end of k by worker-0 failed: store is not available", time.Second},
		{"container-kill", faults.NewContainerKill, "kill start", "store-put-end of k by worker-0 failed: store is not available", time.Second},
		{"container-restart", faults.NewContainerRestart, "stop start start", "store-put-end of k by worker-0 failed: store is not available", time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, c.make, busy, 2*time.Second, func(ctx context.Context, s *scene, w world.World) {
				for range 2 { // it is idempotent
					evidence, err := s.active.Heal(ctx)
					if err != nil || !strings.Contains(evidence, "a put of probe-f passed") {
						t.Errorf("Heal: %q, %v", evidence, err)
					}
				}
				calls := strings.TrimSuffix(strings.Join(s.server.calls, " "), " start")
				if calls != c.calls || s.server.state != "up" {
					t.Errorf("calls %q, then it is %s", calls, s.server.state)
				}
				if !strings.Contains(s.proof, c.proof) || s.at < c.from || s.at > 3*time.Second {
					t.Errorf("proof %q at %v", s.proof, s.at)
				}
				if _, err := s.server.Stat(ctx, "probe-f"); !errors.Is(err, store.ErrNotExist) {
					t.Errorf("the probe is left: %v", err)
				}
			})
		})
	}
}

// TestContainerFaultsProveNothingByThemselves: without a request of the system there is no proof.
func TestContainerFaultsProveNothingByThemselves(t *testing.T) {
	for _, make := range []faults.Constructor{faults.NewContainerPause, faults.NewContainerKill} {
		play(t, make, idle, 5*time.Second, func(ctx context.Context, s *scene, _ world.World) {
			if _, err := s.active.Heal(ctx); err != nil || s.proof != "" {
				t.Errorf("%v, proof %q", err, s.proof)
			}
		})
	}
}

// TestRequestUnderWayProvesAPause: a job that waits for the answer of a put asks nothing more while the server is frozen. A server that
// answered soon after has proven nothing.
func TestRequestUnderWayProvesAPause(t *testing.T) {
	for force, proof := range map[time.Duration]string{2 * time.Second: "under way at the beginning, had no answer for 2", 50 * time.Millisecond: ""} { // order-free: each for itself
		play(t, faults.NewContainerPause, one, force, func(ctx context.Context, s *scene, _ world.World) {
			if _, err := s.active.Heal(ctx); err != nil || proof == "" && s.proof != "" || !strings.Contains(s.proof, proof) {
				t.Errorf("%v, after %v proof %q", err, force, s.proof)
			}
		})
	}
}

func TestContainerFaultThatCannotHealSaysSo(t *testing.T) {
	play(t, faults.NewContainerKill, busy, time.Second, func(ctx context.Context, s *scene, _ world.World) {
		s.server.fail = errors.New("no engine")
		if evidence, err := s.active.Heal(ctx); err == nil {
			t.Errorf("Heal passes: %q", evidence)
		}
		s.server.fail = nil
		if _, err := s.active.Heal(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestContainerFaultsAreRefusedWithoutAContainer(t *testing.T) {
	fault, err := faults.NewContainerKill(faults.Spec{ID: "f", Where: "store"})
	if err != nil {
		t.Fatal(err)
	}
	if err := fault.Available(target.Capabilities{StoreFaults: true}); err == nil {
		t.Error("available without a container")
	}
	if err := fault.Available(target.Capabilities{StoreServer: true}); err != nil {
		t.Error(err)
	}
	if err := fault.Inject(t.Context(), faults.Env{}); err == nil {
		t.Error("injected without a container")
	}
	for _, s := range []faults.Spec{{ID: "f", Where: "worker/1"}, {ID: "f", Where: "store", With: json.RawMessage(`{"delay":"1s"}`)}} {
		if _, err := faults.NewContainerPause(s); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
