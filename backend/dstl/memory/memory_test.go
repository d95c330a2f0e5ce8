package memory_test

import (
	"testing"

	"statebench.dev/bench/backend/dstl/dstltest"
	"statebench.dev/bench/backend/dstl/memory"
)

func TestStorage(t *testing.T) {
	dstltest.RunStorage(t, memory.Open, dstltest.Traits{Forgets: true})
}
