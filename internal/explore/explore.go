// Package explore makes random plans for the simulated world, runs and judges many of them, tells failures apart, and says what
// was covered.
//
// Steps of use: make a Runner, and let Fuzz run plans; or Run one plan, ask the Result what is wrong with it, and Remove it.
//
// A plan follows from its number alone. Half of its disturbances are drawn, the other half walk through every pair of
// fault and checkpoint stage, so that a few hundred plans hit each pair several times.
package explore

import "statebench.dev/bench/internal/failpoint"

// Stages are the checkpoint stages that a plan places faults at: the points at which a stage begins. The copy for
// local recovery is no stage of this program yet.
func Stages() []string {
	return []string{
		failpoint.CheckpointIDBegin, failpoint.CheckpointPendingBegin, failpoint.CheckpointPrecommitBegin, failpoint.CheckpointUploadBegin,
		failpoint.CheckpointAckBegin, failpoint.CheckpointRegisterBegin, failpoint.CheckpointMetadataBegin, failpoint.CheckpointEntryBegin,
		failpoint.CheckpointDropBegin, failpoint.CheckpointDeleteBegin, failpoint.CheckpointNotifyBegin,
	}
}

// Again returns the number of another plan of the same arm with the same pairs of fault and stage, to be run in place of n
// when one fault of n hid another: where all requests fail, or none is made, most faults show no effect, and a run with a
// fault that was not seen to have one says nothing.
func Again(n int) int { return n + 1_000_000*2*len(Stages())*len(Faults()) }

// Faults are the kinds of faults that the walk places at every stage, and that a plan draws from.
func Faults() []string {
	return []string{"worker-crash", "task-error", "store-errors", "store-latency"}
}

// MoreFaults are the kinds that a plan draws in addition to those of the walk, for other places than stages.
func MoreFaults() []string {
	return []string{"store-outage", "lost-ack", "cut-body", "flipped-byte"}
}

// Containers are what can befall the container of the store, in plans of the real world.
func Containers() []string {
	return []string{"container-pause", "container-stop", "container-kill", "container-restart"}
}
