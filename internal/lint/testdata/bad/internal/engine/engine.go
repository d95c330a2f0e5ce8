// Package engine does what a simulated world cannot see.
package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/world"
)

// Engine has a lock, a count and a channel.
type Engine struct {
	mu    sync.Mutex // want: world
	count atomic.Int64
	in    chan int       // want: world
	all   sync.WaitGroup // want: world
}

func (e *Engine) beside(ctx context.Context) {
	go e.clock() // want: world
	select {     // want: world
	case <-e.in: // want: world
	default:
	}
	e.in <- 1        // want: world
	for range e.in { // want: world
	}
	_ = make(chan bool) // want: world
	_ = ctx
}

func (e *Engine) clock() {
	_ = time.Now()                                          // want: world
	<-time.After(time.Second)                               // want: world
	time.Sleep(time.Second)                                 // want: world, sleep
	_, stop := context.WithTimeout(context.Background(), 1) // want: world
	stop()
	_, stop = world.WithTimeout(context.Background(), time.Second)
	stop()
}
