package run_test

import (
	"fmt"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/results"
)

// TestE08E09ColumnsOfCheckpoints (docs/known-faults.md): dead bytes, metadata bytes and, where time is measured, the time to encode them are columns
// of each checkpoint that completed; the metadata is as large as what was put.
func TestE08E09ColumnsOfCheckpoints(t *testing.T) {
	for _, where := range []string{"sim", "real"} {
		t.Run(where, func(t *testing.T) {
			p := short(t, where, "mem")
			p.Backend, p.Arm = *backendNamed("heap-on"), "heap-on"
			rd := carryOut(t, p)
			put := map[string]int64{}
			for _, q := range lines[history.Request](t, rd, results.ObjectsFile) {
				if q.Cause == "meta" && q.Op == history.OpPut && q.Applied == history.AppliedYes {
					put[fmt.Sprint(q.Checkpoint)] = q.Bytes
				}
			}
			rows, err := results.ReadCSV[results.CheckpointRow](rd.Path(results.CheckpointsFile))
			if err != nil {
				t.Fatal(err)
			}
			n, dead := 0, 0.0
			for _, c := range rows {
				if c.Status != "completed" {
					if c.Dead.Set || c.Metadata.Set || c.Encode.Set {
						t.Errorf("checkpoint %s, %s, has figures of completed ones", c.ID, c.Status)
					}
					continue
				}
				n, dead = n+1, dead+c.Dead.Value
				if !c.Dead.Set || c.Metadata.Value != float64(put[c.ID]) || c.Metadata.Value == 0 || c.Encode.Set != (where == "real") || c.Encode.Value < 0 {
					t.Errorf("checkpoint %s: dead %+v, metadata %+v of %d put, encoded in %+v", c.ID, c.Dead, c.Metadata, put[c.ID], c.Encode)
				}
			}
			if n < 3 || dead == 0 {
				t.Errorf("%d checkpoints with %v dead bytes in all", n, dead)
			}
		})
	}
}
