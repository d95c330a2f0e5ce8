package store

import (
	"errors"
	"time"
)

// throttledError is an error of a store that says when to come again.
type throttledError struct {
	error
	after time.Duration
}

// Unwrap is the error without the wait.
func (e *throttledError) Unwrap() error { return e.error }

// Throttled returns err, which is one that wraps ErrThrottled, with the wait that the store asked for; 0 leaves it as it is.
func Throttled(err error, after time.Duration) error {
	if after <= 0 {
		return err
	}
	return &throttledError{err, after}
}

// RetryAfter is the wait that the store asked for before the request is made again; 0: it asked for none.
func RetryAfter(err error) time.Duration {
	var t *throttledError
	if errors.As(err, &t) {
		return t.after
	}
	return 0
}
