package dstltest_test

import (
	"testing"

	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/dstl/dstltest"
)

func TestSegmentLog(t *testing.T) { dstltest.RunStorage(t, dstl.OpenDFS, dstltest.Traits{}) }
