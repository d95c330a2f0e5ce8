// Package catalog knows the implementations.
package catalog

import (
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store/s3store"
)

// New makes one of each.
func New() (heap.Heap, s3store.Bucket) { return heap.Heap{}, s3store.Bucket{} }
