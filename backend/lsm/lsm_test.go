package lsm

import (
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/backendtest"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) backend.Factory { return New(Options{Folder: t.TempDir(), CountEvery: 1}) })
}
