// Package history may hold a lock, as the table says, and no more.
package history

import "sync"

// Recorder has a lock.
type Recorder struct {
	mu   sync.Mutex
	once sync.Once // want: world
}
