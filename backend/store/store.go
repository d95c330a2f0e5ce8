// Package store is the object store as the harness and the backends see it: a small set of operations with S3's semantics,
// an in-memory bucket, and decorators that add retries, tracing, faults, latency and a key prefix.
//
// A bucket is built from the inside out: a store (mem, dirstore, s3store), then WithPrefix, WithLatencyModel, WithSpread,
// WithFaults, WithTrace, WithRetry and, for each worker, WithFence outermost.
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"
)

// Errors of a bucket; compare with errors.Is.
var (
	// ErrNotExist: no object has that key.
	ErrNotExist = errors.New("object does not exist")
	// ErrPrecondition: a put with IfNotExist found the key taken. The store is unchanged.
	ErrPrecondition = errors.New("object exists already")
	// ErrThrottled: the store asks for fewer requests (429, 503). The operation had no effect.
	ErrThrottled = errors.New("store is throttling")
	// ErrAmbiguous: a write may or may not have happened.
	ErrAmbiguous = errors.New("outcome of the write is unknown")
	// ErrUnavailable: the store could not be reached or failed by its own fault (5xx). A read or delete had no effect;
	// a write that may have had one is ErrAmbiguous instead.
	ErrUnavailable = errors.New("store is not available")
	// ErrCorrupt: bytes that came back are not those that were written.
	ErrCorrupt = errors.New("object is damaged")
	// ErrKey: the key is empty, longer than MaxKey bytes, or not valid UTF-8.
	ErrKey = errors.New("key is not usable")
	// ErrOverwrite: a strict bucket was asked to replace an object by other content. The store is unchanged.
	ErrOverwrite = errors.New("object exists with other content")
	// ErrDenied: the store refuses the credentials or the operation (403). Trying again does not help.
	ErrDenied = errors.New("access denied")
	// ErrFenced: the caller is no longer the one who may use the store. A write may have had its effect before.
	ErrFenced = errors.New("caller is fenced off from the store")
	// ErrInjected marks, beside one of the others, an error that a fault of the plan made.
	ErrInjected = errors.New("injected")
)

// MaxKey is the longest key in bytes, prefix included.
const MaxKey = 1024

// CheckKey returns an error that wraps ErrKey unless key is usable.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("empty key: %w", ErrKey)
	case len(key) > MaxKey:
		return fmt.Errorf("key of %d bytes, %d at most: %w", len(key), MaxKey, ErrKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q is not UTF-8: %w", key, ErrKey)
	}
	return nil
}

// Attributes describe one stored object.
type Attributes struct {
	Key  string
	Size int64
	// Modified is when the object was last written, by the store's clock; zero where the store does not tell.
	Modified time.Time
}

// PutOptions qualify a put.
type PutOptions struct {
	// IfNotExist makes the put fail with ErrPrecondition when the key is taken. Such a put is one single request, never multipart.
	IfNotExist bool
	// Info is for the trace only.
	Info Info
}

// Info says on whose behalf a request is made; the trace records it. It travels in the context (WithInfo) or in PutOptions.
type Info struct {
	Cause      string // log, base, meta, coord, restore, clean-up, audit, run
	Who        string // worker-0, coordinator-0, ...
	Attempt    uint64
	Checkpoint uint64
}

// Upload is an open multipart upload.
type Upload struct {
	Key string
	ID  string
	// Begun is when it was begun, by the store's clock; zero where the store does not tell, and in what BeginUpload returns.
	Begun time.Time
}

// Deleted is the answer for one key of a bulk delete. A key that did not exist is no error.
type Deleted struct {
	Key string
	Err error
}

// MultipartBeginner is implemented by stores on which a test can leave a multipart upload open.
type MultipartBeginner interface {
	// BeginUpload opens a multipart upload and sends part as its first one; nothing becomes visible.
	BeginUpload(ctx context.Context, key string, part []byte) (Upload, error)
}

// Bucket is an object store. All methods may be called concurrently; keys are slash-separated UTF-8 strings of 1 to MaxKey bytes.
// After ctx is done a call returns an error for which errors.Is(err, context.Cause(ctx)) or context.Canceled/DeadlineExceeded holds;
// a cancelled put is atomic: either the whole object is visible or none of it.
type Bucket interface {
	// Put stores body under key and returns when it is durable and visible to every later call. It does not keep or change body.
	Put(ctx context.Context, key string, body []byte, o PutOptions) error
	// Get returns the whole object in memory that the caller owns.
	Get(ctx context.Context, key string) ([]byte, error)
	// GetRange returns n bytes from off; 0 <= off, n >= 0. A range that reaches past the end is cut there; one that
	// begins past the end returns no bytes and no error.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Stat returns the attributes, or ErrNotExist.
	Stat(ctx context.Context, key string) (Attributes, error)
	// List yields the objects whose keys begin with prefix and are greater than startAfter, in byte order of keys.
	// An error is yielded once and ends the sequence.
	List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error]
	// Delete removes the keys, any number of them; it returns one answer a key in the order given.
	Delete(ctx context.Context, keys []string) []Deleted
	// Uploads lists multipart uploads that were begun under prefix and neither completed nor aborted.
	Uploads(ctx context.Context, prefix string) ([]Upload, error)
	// AbortUpload ends one of them and frees its parts.
	AbortUpload(ctx context.Context, u Upload) error
	// Close releases connections and, for a store that the run started, what was started.
	Close() error
}
