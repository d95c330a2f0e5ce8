package engine

// The planted bugs of the engine. They exist only in builds with the tag for them; internal/explore has the plans under which each
// of them matters and the checks that must see it.
const (
	// Of the coordinator and its registry.
	mutantDeleteOnSubsume = "delete-on-subsume" // objects of a subsumed checkpoint are deleted without a look at the registry
	mutantDropRetained    = "drop-retained"     // what only the lowest retained checkpoint names counts as unused
	mutantDeleteEarly     = "delete-early"      // objects are deleted before the log says that their checkpoint was dropped
	mutantKeepDropped     = "keep-dropped"      // what nobody needs any more is not deleted
	mutantAcceptZombie    = "accept-zombie"     // acknowledgements of dead workers and fenced attempts count, and their uploads are kept
	mutantEarlyComplete   = "early-complete"    // a checkpoint completes with one acknowledgement missing
	mutantCountTwice      = "count-twice"       // the size of a checkpoint is twice what its subtasks stored
	mutantReuseID         = "reuse-id"          // the first checkpoint of a later attempt takes an id that was used
	mutantStaleRestore    = "stale-restore"     // the oldest retained checkpoint is restored instead of the newest

	// Of what is dealt out at a restore or a rescale.
	mutantReplayTwice   = "replay-twice"          // a source begins one record before the restored position
	mutantReplaySkip    = "replay-skip"           // a source begins one record behind it
	mutantSwapPositions = "swap-positions"        // after a rescale a partition begins where the next one was
	mutantFirstHandle   = "first-handle"          // of several handles a subtask restores the first only
	mutantForgetState   = "forget-operator-state" // after a rescale operator state is empty
	mutantDropCommits   = "drop-transactions"     // what a restored checkpoint commits is not committed

	// Of the data plane, timers and the sink.
	mutantDropBroadcast  = "drop-broadcast"     // some broadcast records reach the first subtask only
	mutantFirstWatermark = "first-watermark"    // the watermark of a second input is not waited for
	mutantUnaligned      = "unaligned"          // a channel whose barrier has come is read on
	mutantBarrierFirst   = "barrier-first"      // a barrier overtakes the records of open buffers
	mutantForgetTimers   = "forget-timers"      // timers are not loaded on a restore
	mutantKeepTimers     = "keep-timers"        // a timer that fires stays in the state
	mutantForgetExpiry   = "forget-expiry"      // what has expired stays
	mutantCommitEarly    = "commit-at-snapshot" // the sink commits in the synchronous part
)
