//go:build mutants

package failpoint

import (
	"errors"
	"sync/atomic"
)

// MutantsBuilt tells whether planted bugs are compiled in.
const MutantsBuilt = true

// mutants are the armed planted bugs of a set.
type mutants struct {
	armed atomic.Pointer[map[string]bool]
}

// ArmMutant switches the planted bug called name on for this set. Which names mean something is up to the code that
// asks; a name nobody asks for does nothing.
func (s *Set) ArmMutant(name string) error {
	if s == nil {
		return errors.New("a nil set cannot be armed")
	}
	for {
		old := s.mutants.armed.Load()
		all := map[string]bool{name: true}
		if old != nil {
			for n := range *old { // order-free: a copy of a set
				all[n] = true
			}
		}
		if s.mutants.armed.CompareAndSwap(old, &all) {
			return nil
		}
	}
}

// Mutant tells whether the planted bug called name is armed.
func (s *Set) Mutant(name string) bool {
	if s == nil {
		return false
	}
	armed := s.mutants.armed.Load()
	return armed != nil && (*armed)[name]
}
