// Package heap is commented in the wrong file.
package heap // want: package-comment

import "testing" // want: testing

// Check needs a test to be called.
func Check(t *testing.T) { t.Helper() }
