//go:build !mutants

package failpoint

import "errors"

// MutantsBuilt tells whether planted bugs are compiled in.
const MutantsBuilt = false

// mutants is empty without the build tag mutants.
type mutants struct{} //lint:ignore U1000 the other build fills it

// ArmMutant returns an error: planted bugs need the build tag mutants.
func (s *Set) ArmMutant(string) error {
	return errors.New("planted bugs are not compiled in; build with -tags mutants")
}

// Mutant is false, known to the compiler, which drops the code that asks.
func (s *Set) Mutant(string) bool { return false }
