package workloads

import (
	_ "strings"

	_ "statebench.dev/bench/backend" // want: import
	_ "statebench.dev/bench/internal/seed"
)
