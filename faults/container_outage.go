package faults

import (
	"context"

	"statebench.dev/bench/internal/target"
)

// NewContainerStop makes the fault container-stop: the store's server ends in good order and is started when healed. Where:
// store. No options.
func NewContainerStop(s Spec) (Fault, error) {
	return newContainer(s, containerFault{what: "stopped", down: stopped})
}

// NewContainerKill makes the fault container-kill: the store's server dies as in a crash and is started when healed. Where:
// store. No options.
func NewContainerKill(s Spec) (Fault, error) {
	return newContainer(s, containerFault{what: "dead", down: func(ctx context.Context, c target.StoreServer) error { return c.Kill(ctx) }})
}

// NewContainerRestart makes the fault container-restart: the store's server ends in good order and is started at once, on
// the same disk. Where: store. No options.
func NewContainerRestart(s Spec) (Fault, error) {
	return newContainer(s, containerFault{what: "restarted", down: stopped, back: true})
}

func stopped(ctx context.Context, c target.StoreServer) error { return c.Stop(ctx) }
