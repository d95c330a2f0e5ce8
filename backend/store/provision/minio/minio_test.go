package minio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/s3store"
)

// What the test binary does when it is run again.
const childVar = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childVar) {
	case "guard":
		err = Guard()
	case "crash":
		err = crash()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func options() Options {
	return Options{Source: Source{Announce: func(text string) { fmt.Fprintln(os.Stderr, text) }},
		Guard: GuardOptions{Args: []string{}, Env: []string{childVar + "=guard"}}}
}

// engine connects, or skips where there is none and none is required.
func engine(t *testing.T) *Engine {
	t.Helper()
	e, err := Connect(t.Context())
	var none *NoEngineError
	if errors.As(err, &none) && os.Getenv("BENCH_REQUIRE_CONTAINERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func startServer(t *testing.T) *Server {
	t.Helper()
	engine(t)
	s, err := Start(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func bucketOf(t *testing.T, s *Server, name string) store.Bucket {
	t.Helper()
	access, secret := s.Credentials()
	b, err := s3store.Open(t.Context(), s3store.Options{Endpoint: s.Endpoint(), Bucket: name, AccessKey: access, SecretKey: secret, CreateBucket: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAddressStaysAndDataSurvives takes the server through all that can be done to it.
func TestAddressStaysAndDataSurvives(t *testing.T) {
	s := startServer(t)
	ctx := t.Context()
	b := bucketOf(t, s, "bucket")
	address := s.Endpoint()
	if host, _, _ := net.SplitHostPort(address); host != "127.0.0.1" {
		t.Errorf("endpoint %s is not on the loopback address", address)
	}
	if err := b.Put(ctx, "kept", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
	}{{"stop", s.Stop}, {"kill", s.Kill}, {"stop", s.Stop}} {
		if err := c.do(ctx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, err := b.Get(ctx, "kept"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("after %s: Get returns %v", c.name, err)
		}
		if s.PID() != 0 {
			t.Errorf("after %s: it still has process %d", c.name, s.PID())
		}
		if err := c.do(ctx); err == nil {
			t.Errorf("%s of a server that is down passes", c.name)
		}
		began := time.Now()
		if err := s.Start(ctx); err != nil {
			t.Fatalf("start after %s: %v", c.name, err)
		}
		t.Logf("start after %s: %v", c.name, time.Since(began))
		if got, err := b.Get(ctx, "kept"); err != nil || string(got) != "x" || s.Endpoint() != address || s.PID() == 0 {
			t.Errorf("after %s and start: Get = %q, %v; endpoint %s, before %s; process %d", c.name, got, err, s.Endpoint(), address, s.PID())
		}
	}
	if err := s.Start(ctx); err != nil {
		t.Errorf("start of a server that runs: %v", err)
	}
}

func TestPausedServerHangsAndGoesOn(t *testing.T) {
	s := startServer(t)
	ctx := t.Context()
	b := bucketOf(t, s, "bucket")
	if err := s.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := b.Put(short, "cancelled", []byte("x"), store.PutOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put to a paused server: %v", err)
	}
	answer := make(chan error, 1)
	go func() { answer <- b.Put(ctx, "waiting", []byte("x"), store.PutOptions{}) }()
	if err := s.Pause(ctx); err == nil {
		t.Error("a second pause passes")
	}
	if err := s.Start(ctx); err != nil { // resumes
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("Put that waited: %v", err)
	}
	if err := s.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx); err != nil {
		t.Errorf("kill of a paused server: %v", err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(ctx, "waiting"); err != nil {
		t.Error(err)
	}
	if err := s.Pause(ctx); err != nil { // and Close of a paused one, at the end
		t.Fatal(err)
	}
}

// TestCloseLeavesNothing looks at the engine, the proxy and the guard after Close.
func TestCloseLeavesNothing(t *testing.T) {
	e := engine(t)
	began := time.Now()
	s, err := Start(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start: %v", time.Since(began))
	info := limited(t, e, s, DefaultCPUs, DefaultMemory)
	for p, bindings := range info.Container.NetworkSettings.Ports {
		for _, b := range bindings {
			if !b.HostIP.IsLoopback() {
				t.Errorf("%v is published on %v", p, b.HostIP)
			}
		}
	}
	began = time.Now()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("close: %v", time.Since(began))
	if _, err := e.client.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{}); !gone(err) {
		t.Errorf("container after Close: %v", err)
	}
	if c, err := net.Dial("tcp", s.Endpoint()); err == nil {
		c.Close()
		t.Error("the proxy is still there")
	}
	if err := s.guard.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the guard is still there: %v", err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("start after Close passes")
	}
}

// limited wants the limits of a running container, as the engine has them.
func limited(t *testing.T, e *Engine, s *Server, cpus float64, memory int64) client.ContainerInspectResult {
	t.Helper()
	info, err := e.client.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hc, nano := info.Container.HostConfig, int64(min(cpus, float64(e.cpus))*1e9)
	if hc.NanoCPUs != nano || hc.Memory != memory || hc.MemorySwap != memory { // as much swap as memory: none
		t.Errorf("the engine has %d nano-CPUs, %d bytes, %d with swap; want %d and %d", hc.NanoCPUs, hc.Memory, hc.MemorySwap, nano, memory)
	}
	return info
}

// TestAContainerHasTheLimitsOfItsOptions looks at a running container; more cores than there are is cut to those.
func TestAContainerHasTheLimitsOfItsOptions(t *testing.T) {
	e := engine(t)
	for _, want := range []struct {
		cpus   float64
		memory int64
	}{{0.75, 320 << 20}, {1000, 512 << 20}} {
		o := options()
		o.CPUs, o.Memory = want.cpus, want.memory
		s, err := Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		limited(t, e, s, want.cpus, want.memory)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEnvStaysUntilItIsTakenDown(t *testing.T) {
	e := engine(t)
	v, err := e.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.ID != "" {
		if os.Getenv("BENCH_REQUIRE_CONTAINERS") == "1" {
			t.Fatalf("an environment is up already, take it down first: %v", v)
		}
		t.Skipf("an environment is up already: %v", v)
	}
	made := 0
	bucket := func(ctx context.Context, v Env) error {
		made++
		_, err := s3store.Open(ctx, s3store.Options{Endpoint: v.Endpoint, Bucket: "bucket", AccessKey: v.Access, SecretKey: v.Secret, CreateBucket: true})
		return err
	}
	first, err := e.Up(t.Context(), options(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Up(t.Context(), options(), bucket)
	if err != nil || second != first || made != 1 {
		t.Errorf("second Up: %+v, %v; first %+v; %d buckets made", second, err, first, made)
	}
	resp, err := http.Get("http://" + first.Endpoint + readyPath)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if removed, err := e.Down(t.Context()); err != nil || len(removed) == 0 {
		t.Errorf("Down: %v, %v", removed, err)
	}
	failing := func(context.Context, Env) error { return errors.New("no bucket") }
	if _, err := e.Up(t.Context(), options(), failing); err == nil {
		t.Error("Up passes without its bucket")
	}
	if v, err := e.Status(t.Context()); err != nil || v.ID != "" {
		t.Errorf("after Down and a failed Up: %+v, %v", v, err)
	}
}
