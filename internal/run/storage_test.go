package run_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/run"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// stored is short with a worker that crashes and the log in a storage of its own.
func stored(t *testing.T, where, kind, storage string) plan.Plan {
	t.Helper()
	p := short(t, where, kind)
	p.Backend.Changelog.Storage = storage
	p.Faults = p.Faults[1:] // the store's latency does not reach the log
	return p
}

// TestLogInFiles: a job whose log lies in files survives a worker that crashes, in both worlds. No request for the log reaches the
// object store, the log is read when the job restarts, and nothing is left behind.
func TestLogInFiles(t *testing.T) {
	for _, where := range []string{"sim", "real"} {
		t.Run(where, func(t *testing.T) {
			rd := carryOut(t, stored(t, where, "mem", plan.LogFile))
			puts, gets, store := 0, 0, int64(0)
			for _, q := range lines[history.Request](t, rd, results.ObjectsFile) {
				if log := strings.HasPrefix(q.Key, "log/"); log != q.Log {
					t.Fatalf("request %s of %s is marked %v", q.Op, q.Key, q.Log)
				}
				switch {
				case q.Log && q.Op == history.OpPut:
					puts++
				case q.Op == history.OpPut:
					store += q.Bytes
				case q.Log && q.Op == history.OpGet && q.Cause == "restore":
					gets++
				}
			}
			if puts < 5 || gets == 0 {
				t.Errorf("%d segments were put and %d parts read by restores", puts, gets)
			}
			if _, err := os.Stat(rd.Path(results.LogFolder)); !os.IsNotExist(err) {
				t.Errorf("the folder of the log is left: %v", err)
			}
			d, err := metrics.Read(rd)
			if err != nil {
				t.Fatal(err)
			}
			written := int64(0)
			for _, tr := range d.Traffic { // order-free: a sum
				written += tr.Written
			}
			if written == 0 || written > store {
				t.Errorf("figures say that %d bytes were written to the store, it got %d", written, store)
			}
		})
	}
}

// TestAuditFindsOrphansInFiles: what looks at a store sees a log in files as part of it.
func TestAuditFindsOrphansInFiles(t *testing.T) {
	folder := t.TempDir()
	p := stored(t, "real", "dir:"+folder, plan.LogFile)
	p.Faults = nil
	dir := results.Dir(t.TempDir())
	rd, err := dir.CreateRun(run.Name(&p))
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Run(deps(), p, rd, run.Options{KeepObjects: true})
	if err = errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
	w := world.NewReal(1)
	err = w.Run(func(ctx context.Context) error {
		objects, _, err := deps().Provision(ctx, w, p.Store.Kind)
		if err != nil {
			return err
		}
		prefixes, err := scrub.Prefixes(ctx, objects)
		if err != nil || len(prefixes) != 1 {
			return fmt.Errorf("runs %v: %w", prefixes, err)
		}
		entry, err := catalog.LogStorages().Find(plan.LogFile)
		if err != nil {
			return err
		}
		log, err := entry.New(ctx, dstl.StorageEnv{World: w, Disk: world.NewFolderDisk(rd.Path(results.LogFolder))})
		if err != nil {
			return err
		}
		both := dstl.Over(store.WithPrefix(objects, prefixes[0]), log)
		for i, want := range []scrub.Verdict{scrub.Clean, scrub.Litter} {
			report, err := scrub.Audit(ctx, w, both, scrub.Options{Formats: catalog.Formats(), Now: time.Now()})
			if err != nil {
				return err
			}
			if report.Verdict() != want || report.Counts[scrub.Orphan] != int64(i) {
				t.Errorf("with %d orphans the verdict is %v: %+v", i, report.Verdict(), report.Counts)
			}
			if err := log.Put(ctx, "log/1/worker-0/00999999.seg", []byte("nobody needs this")); err != nil {
				return err
			}
		}
		return errors.Join(log.Close(ctx), objects.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}
