package workloads

import (
	"fmt"
	"math"
)

// watermarkAt checks the positions that a model is asked to move to, and returns the watermark there: the least over the
// partitions, math.MaxInt64 when none holds it back. bounds says where a partition stands and where it ends, watermark
// what it lets pass at a position.
func watermarkAt(positions []int64, partitions int, bounds func(p int) (next, limit int64), watermark func(p int, to int64) int64) (int64, error) {
	if len(positions) != partitions {
		return 0, fmt.Errorf("%d positions for %d partitions", len(positions), partitions)
	}
	least := int64(math.MaxInt64)
	for p, to := range positions {
		if next, limit := bounds(p); to < next || to > limit {
			return 0, fmt.Errorf("position %d of partition %d is not from %d to %d", to, p, next, limit)
		}
		least = min(least, watermark(p, to))
	}
	return least, nil
}
