package plan

// What a plan and a scenario may ask for at most: all of it is made when the run begins, and a number beyond is a mistake.
const (
	MaxWorkers     = 1_000 // workers, slots and cores of each
	MaxSchema      = 1 << 15
	MaxParallelism = 1 << 15   // key groups are numbered in 16 bits, as in Flink
	MaxBuffer      = 1 << 16   // records of a buffer
	MaxCredits     = 1 << 10   // buffers of a channel
	MaxRetain      = 1_000     // retained checkpoints
	MaxDeletes     = 1_000_000 // objects deleted in a second
	MaxRetries     = 10_000    // retries of a worker's log uploads in a second
	MaxSpread      = 256       // prefixes that keys are spread over
	MaxConcurrent  = 16        // checkpoints under way at a time
	MaxFailures    = 1_000_000
	MaxMultiplier  = 1_000     // of exponential-delay
	MaxRecords     = 1 << 53   // of a phase: above, numbers in JSON lose digits
	MaxCPUs        = 1_000     // of a container
	MaxName        = 100       // characters of a scenario or an arm: both become parts of names of files
	MinMemory      = 128 << 20 // bytes of a container of MinIO: it does not start in less
	MaxReps        = 10_000    // runs of an arm: all plans are made before the first
)
