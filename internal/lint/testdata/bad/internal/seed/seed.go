// Package seed draws.
package seed

// One is one.
const One = 1

// Two is told of in docs/absent.md, want: link
const Two = 2
