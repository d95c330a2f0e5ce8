package file_test

import (
	"context"
	"testing"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/dstl/dstltest"
	"statebench.dev/bench/backend/dstl/file"
)

func TestStorage(t *testing.T) {
	open := func(ctx context.Context, e dstl.StorageEnv) (dstl.Storage, error) {
		return file.Open(ctx, e, file.Options{Rotate: 5000})
	}
	dstltest.RunStorage(t, open, dstltest.Traits{OnDisk: true})
}
