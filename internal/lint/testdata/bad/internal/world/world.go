// Package world may do all that the others may not.
package world

import (
	"context"
	"time"
)

// WithTimeout is the world's own.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	return context.WithTimeout(ctx, d)
}

// Go starts a process.
func Go(f func()) {
	go func() {
		defer func() { _ = recover() }()
		f()
	}()
}
