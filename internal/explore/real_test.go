package explore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/explore"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/world"
)

// child marks the test binary run again as the embedded store.
const child = "BENCH_TEST_CHILD"

var real20 = flag.Int("real", 6, "how many random plans to run in the real world")

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		if err := embedded.ServeChild(os.Args[1:]...); err != nil {
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

// TestRandomPlansPassInTheRealWorld runs random plans on goroutines and the wall clock, several at a time, on each kind of
// store in turn, one in three as slow as S3. `go test ./internal/explore -run RealWorld -real 20` runs more of them.
func TestRandomPlansPassInTheRealWorld(t *testing.T) {
	n := *real20
	if testing.Short() {
		n = min(n, 2)
	}
	d := deps()
	d.Provision = func(ctx context.Context, w world.World, spec string) (store.Bucket, provision.Description, error) {
		return provision.Open(ctx, w, spec, provision.Options{Embedded: embedded.Options{Args: []string{}, Env: []string{child + "=1"}}})
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 6)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			kind := []string{"mem", "embedded", "dir:" + filepath.Join(t.TempDir(), "objects")}[i%3]
			p := resolved(t, explore.GenerateReal(*from+i, kind))
			if i/2%3 == 0 { // both arms, over all kinds
				p = slow(p)
			}
			out, verdicts, rd := executeWith(t, d, p, run.Options{})
			problem := describe(out, verdicts)
			if problem != "" {
				t.Errorf("plan %d (%s, %s, %s): %s", *from+i, p.Arm, kind, p.Store.Profile, problem)
			}
			discard(t, p, rd, problem != "")
		})
	}
	wg.Wait()
}
