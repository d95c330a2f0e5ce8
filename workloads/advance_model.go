package workloads

import (
	"fmt"
	"math"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
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

// eachOutput calls f for the key groups with output of a partition, whose digests are given by key group.
func eachOutput(partition int, digests []canon.Digest, f func(partition int, group keygroup.ID, d canon.Digest)) {
	for g, d := range digests {
		if d.Count > 0 {
			f(partition, keygroup.ID(g), d)
		}
	}
}

// marked tells whether a bitmap, which ends with its last mark, has one at index.
func marked(bits []uint64, index int64) bool {
	return index/64 < int64(len(bits)) && bits[index/64]&(1<<(index%64)) != 0
}
