package s3store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"

	"statebench.dev/bench/backend/store"
)

// kind is what an operation may have done when it fails.
type kind int

const (
	kindRead   kind = iota // nothing
	kindDelete             // a delete, which can be made again
	kindWrite              // it may have made an object visible
	kindPart               // it cannot have made one visible
)

// mapped turns an error of the client into one of package store; nil stays nil.
func mapped(ctx context.Context, k kind, op, key string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %q: %w (%v)", op, key, context.Cause(ctx), err)
	}
	var own error
	resp := minio.ToErrorResponse(err)
	switch status := resp.StatusCode; {
	case resp.Code == minio.NoSuchBucket:
		own = store.ErrDenied // a missing object would be another matter
	case (k == kindRead || k == kindDelete) &&
		(status == http.StatusNotFound || resp.Code == minio.NoSuchKey || resp.Code == minio.NoSuchUpload):
		own = store.ErrNotExist
	case status == http.StatusPreconditionFailed || resp.Code == minio.PreconditionFailed:
		own = store.ErrPrecondition
	case resp.Code == "RequestTimeTooSkewed":
		own = skewed(answered(ctx), time.Now())
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || resp.Code == "SlowDown":
		own = store.ErrThrottled
	case status == http.StatusConflict: // two conditional puts at once: S3 asks to try again
		own = store.ErrThrottled
	case slices.Contains([]string{"KeyTooLongError", "XMinioInvalidObjectName", "XMinioInvalidResourceName"}, resp.Code):
		own = store.ErrKey // some servers take fewer keys than S3 does
	case status == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%s %q: %w", op, key, err)
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusNotFound:
		own = store.ErrDenied
	case k == kindWrite && !neverSent(err):
		own = store.ErrAmbiguous
	default:
		own = store.ErrUnavailable
	}
	err = fmt.Errorf("%s %q: %w (%w)", op, key, own, err)
	if errors.Is(own, store.ErrThrottled) {
		return store.Throttled(err, answered(ctx).after)
	}
	return err
}

// neverSent tells whether no connection came about, so that the request cannot have had an effect.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
