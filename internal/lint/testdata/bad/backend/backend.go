// Package backend has contracts that are not written down.
package backend

import "statebench.dev/bench/internal/target" // want: level

// Backend is an interface of which one method has no comment.
type Backend interface {
	// Open opens.
	Open() error

	Close() error // closes

	Flush(func( /* want: exported-doc */ )) error
}
