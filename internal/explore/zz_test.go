//go:build mutants

package explore_test

import (
	"fmt"
	"os"
	"statebench.dev/bench/internal/run"
	"testing"
)

func TestZZ(t *testing.T) {
	for _, m := range mutants() {
		if m.name != os.Getenv("MUT") {
			continue
		}
		p := small(1)
		m.disturb(&p)
		p = resolved(t, p)
		out, verdicts, rd := execute(t, p, run.Options{Mutants: []string{m.name}})
		fmt.Println(rd, describe(out, verdicts))
	}
}
