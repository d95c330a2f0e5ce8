// Package dstl names another implementation, and reaches what the backend must not.
package dstl

import (
	"statebench.dev/bench/backend/heap"     // want: level, import
	"statebench.dev/bench/internal/catalog" // want: level, import
	_ "statebench.dev/bench/workloads"      // want: level, import
)

// Log is a log.
type Log struct{ heap.Heap }

// All is all.
func All() { catalog.New() }
