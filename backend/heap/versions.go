package heap

import (
	"math"
	"slices"
	"sync/atomic"

	"statebench.dev/bench/internal/world"
)

// versions counts snapshots. What was written since the newest live one belongs to the loop alone and is changed in place;
// what is older is shared with it and copied before a change.
type versions struct {
	current uint32 // of what is written now; the loop's
	mu      *world.Mutex
	live    []uint32 // of snapshots that are not released, ascending; guarded by mu
	// The ends of live, for the loop to read without the lock.
	newestLive, oldestLive atomic.Uint32
}

func (v *versions) init(w world.World) {
	v.current, v.mu = 1, world.NewMutex(w)
	v.oldestLive.Store(math.MaxUint32)
}

// newest is the version of the newest live snapshot, 0 for none: what has a greater one is not shared.
func (v *versions) newest() uint32 { return v.newestLive.Load() }

// oldest is the version of the oldest live snapshot, or MaxUint32.
func (v *versions) oldest() uint32 { return v.oldestLive.Load() }

// fix makes all that was written so far shared with a new snapshot and returns its version.
func (v *versions) fix() uint32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	version := v.current
	v.current++
	v.live = append(v.live, version)
	v.publish()
	return version
}

// drop ends the sharing with the snapshot of that version. Any process may call it.
func (v *versions) drop(version uint32) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.live, version); i >= 0 {
		v.live = slices.Delete(v.live, i, i+1)
		v.publish()
	}
}

func (v *versions) publish() {
	if len(v.live) == 0 {
		v.newestLive.Store(0)
		v.oldestLive.Store(math.MaxUint32)
		return
	}
	v.newestLive.Store(v.live[len(v.live)-1])
	v.oldestLive.Store(v.live[0])
}
