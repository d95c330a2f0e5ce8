// Package seed derives independent random streams from one master seed.
//
// Every user of randomness names its stream. The stream depends on the master seed and the name only, so removing one
// user does not shift the draws of another, and the same seed gives the same draws on every machine and Go version:
// the hash is xxh3 and the generator PCG, both fixed. Steps of use: Stream for a generator, Hash for one fixed number.
package seed

import (
	"math/rand/v2"

	"github.com/zeebo/xxh3"
)

// second separates the two halves of a stream's state; any odd constant would do, but it must never change.
const second = 0x9e3779b97f4a7c15

// Hash returns a 64-bit number fixed by master and name. It is stable across machines and versions. Safe for
// concurrent use.
func Hash(master uint64, name string) uint64 {
	return xxh3.HashStringSeed(name, master)
}

// Stream returns a new generator whose draws are fixed by master and name: two calls with equal arguments give
// generators with equal draws. The caller owns it; a generator is not safe for concurrent use.
func Stream(master uint64, name string) *rand.Rand {
	return rand.New(rand.NewPCG(Hash(master, name), Hash(master^second, name)))
}
