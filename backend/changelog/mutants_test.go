//go:build mutants

package changelog_test

import (
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/internal/keygroup"
)

func TestMutantDropsAKeyGroupOnScaleUp(t *testing.T) {
	simulate(t, func(r *rig) {
		f := factory(changelog.Options{})
		r.start(f)
		s := r.open(0, 1)
		s.fill("x")
		h := s.checkpoint(1).Handle
		r.end(s)
		for _, narrowed := range []bool{false, true} {
			r.start(f)
			ok(r.worker.Env.Failpoints.ArmMutant("drop-key-group"))
			if narrowed {
				h, _ = h.Narrow(keygroup.RangeOf(1, 2, 16))
			}
			s = r.open(1, 2, h)
			lost := 0
			for g := s.Range().From; g < s.Range().To; g++ {
				if _, found, err := s.Get(backend.Addr{State: s.state, Group: g, Key: []byte("key")}); err == nil && !found {
					lost++
				}
			}
			want(lost == 1, "narrowed %v: %d key groups are lost, want 1", narrowed, lost)
			r.end(s)
		}
	})
}
