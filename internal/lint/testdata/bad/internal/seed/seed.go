// Package seed draws.
package seed

// One is one.
const One = 1
