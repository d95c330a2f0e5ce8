// Package workloads has a model that leans on the system under test.
package workloads

import (
	_ "statebench.dev/bench/backend"
	_ "statebench.dev/bench/internal/seed"
)
