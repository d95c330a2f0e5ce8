package main

import (
	"context"
	"errors"
)

// errInterrupted ends a command whose user has lost patience.
var errInterrupted = &exitError{exitInterrupted, errors.New("interrupted")} // read-only: an error

// interruptible reads a file that may be a pipe into which nobody writes: then an interrupt ends the wait. What still
// reads is left behind; the program is about to end.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := read()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, errInterrupted
	}
}

// unread is the error of a file that could not be read.
func unread(what string, err error) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	return usage("read %s: %v", what, err)
}
