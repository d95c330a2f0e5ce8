package faults

import (
	"context"

	"statebench.dev/bench/internal/target"
)

// NewContainerPause makes the fault container-pause: the store's server freezes, so that requests hang, and goes on when
// healed. Where: store. No options.
func NewContainerPause(s Spec) (Fault, error) {
	return newContainer(s, containerFault{what: "paused", down: func(ctx context.Context, c target.StoreServer) error { return c.Pause(ctx) }})
}
