// Package report looks at more than stored files.
package report

import (
	_ "statebench.dev/bench/internal/history"
	_ "statebench.dev/bench/workloads" // want: import
)
