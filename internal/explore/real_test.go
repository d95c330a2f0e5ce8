package explore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/backend/store/provision/minio"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// child marks the test binary run again as the embedded store, or as the guard of a container.
const child = "BENCH_TEST_CHILD"

var realPlans = flag.Int("real", 8, "how many random plans to run in the real world")

func TestMain(m *testing.M) {
	if as := os.Getenv(child); as != "" {
		err := errors.New(as + " is nothing to be")
		switch as {
		case "store":
			err = embedded.ServeChild(os.Args[1:]...)
		case "guard":
			err = minio.Guard()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a simulated run keeps little and throws away much
	}
	os.Exit(m.Run())
}

// stores are where the plans run: pairs of them, one of each arm.
func stores(t *testing.T) []string {
	container := provision.KindMinIO
	e, err := minio.Connect(t.Context())
	var none *minio.NoEngineError
	switch {
	case errors.As(err, &none) && os.Getenv("BENCH_REQUIRE_CONTAINERS") != "1":
		t.Logf("without containers: %v", err)
		container = provision.KindEmbedded
	case err != nil:
		t.Fatal(err)
	default:
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	return []string{provision.KindEmbedded, container, provision.KindMem, container, provision.KindEmbedded, container, "dir:" + filepath.Join(t.TempDir(), "objects"), container}
}

// servers are MinIO servers that are up and in use by no plan; nil for one that was not started yet.
type servers chan *minio.Server

// take waits for one and returns it as one that a run may close: it goes back then.
func (s servers) take(ctx context.Context) (provision.Server, error) {
	server := <-s
	if server == nil {
		var err error
		server, err = minio.Start(ctx, minio.Options{Guard: minio.GuardOptions{Args: []string{}, Env: []string{child + "=guard"}}})
		if err != nil {
			s <- nil
			return nil, err
		}
	}
	return &lent{server, s}, nil
}

// lent is a server that goes back when it is closed.
type lent struct {
	*minio.Server
	to servers
}

// Close gives it back. A fault may have taken it down and never have brought it up.
func (l *lent) Close() error {
	err := l.Start(context.Background())
	l.to <- l.Server
	return err
}

// TestRandomPlansPassInTheRealWorld runs random plans on goroutines and the wall clock, several at a time, on each kind of
// store in turn, MinIO in containers of which much befalls included, one plan in four as slow as S3.
// `go test ./internal/explore -run RealWorld -real 100` runs more of them.
func TestRandomPlansPassInTheRealWorld(t *testing.T) {
	n := *realPlans
	if testing.Short() {
		n = min(n, 2)
	}
	kinds := stores(t)
	up := make(servers, 4)
	for range cap(up) {
		up <- nil
	}
	t.Cleanup(func() {
		for range cap(up) {
			if s := <-up; s != nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	d := deps()
	d.Provision = func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
		return provision.Open(ctx, w, spec, provision.Options{MinIO: up.take, Embedded: embedded.Options{Args: []string{}, Env: []string{child + "=store"}}})
	}
	x := inReality{deps: d}
	next := make(chan int)
	var wg sync.WaitGroup
	began := time.Now()
	for range 8 {
		wg.Go(func() {
			for i := range next {
				x.explore(t, *from+i, kinds[i/2%len(kinds)], i/4%4 == 0)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	t.Logf("%.0f s, %d plans drawn again\n%s", time.Since(began).Seconds(), x.again, x.cover.Table())
	if x.again > max(3, n*realAgainShare/100) {
		t.Errorf("%d of %d plans were drawn again: faults are not seen to have an effect", x.again, n)
	}
}

// realAgainShare is in how many of hundred plans faults may hide each other in the real world, whose faults are closer together.
const realAgainShare = 15

// inReality is what came of many plans in the real world.
type inReality struct {
	deps  run.Deps
	mu    sync.Mutex
	cover explore.Coverage
	again int
}

// explore runs plan n on a store, and others in its place as long as its faults hide each other.
func (x *inReality) explore(t *testing.T, n int, kind string, far bool) {
	t.Helper()
	for k := 0; ; k++ {
		p := resolved(t, explore.GenerateReal(n, kind))
		if far {
			p = slow(p)
		}
		began := time.Now()
		kind, _, _ := strings.Cut(kind, ":")
		out, verdicts, rd := executeWith(t, x.deps, p, run.Options{})
		about := fmt.Sprintf("%s (%s, %s, %s, %s) in %.1f s", p.Scenario, p.Arm, p.Backend.Name, kind, p.Store.Profile, time.Since(began).Seconds())
		result := explore.Result{Plan: p, Outcome: out, Verdicts: verdicts, Dir: rd}
		completed, _, err := result.Checkpoints()
		if err != nil {
			t.Error(err)
		}
		problem := describe(out, verdicts)
		redraw := hidden(out, verdicts) && k < again
		discard(t, p, rd, problem != "" && !redraw)
		x.mu.Lock()
		switch {
		case problem == "":
			t.Logf("%s passed", about)
			x.cover.Add(&p, completed)
		case redraw:
			t.Logf("%s is drawn again: %s", about, problem)
			x.again++
		default:
			t.Errorf("%s: %s", about, problem)
		}
		x.mu.Unlock()
		if !redraw {
			return
		}
		n = explore.Again(n)
	}
}
