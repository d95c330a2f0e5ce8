package scenario

import "statebench.dev/bench/internal/plan"

// key is one key of a block: what the loader accepts there and what the JSON Schema says of it.
type key struct {
	name string
	// kind is one of the words of schema.go (duration, size, name, ...), a block's path after @, or either with [] in
	// front for a list.
	kind  string
	about string
	need  bool
	// words are what a key of kind word takes.
	words []string
	// lo and hi bound a whole number.
	lo, hi int64
}

// block is the keys of one block of the format, by its path without list indices and names of arms. It is the one list
// that the loader and the schema share.
func block(path string) []key {
	switch path {
	case "":
		return topKeys()
	case "env", "env.store", "env.store.limits", "env.workers", "env.workers.heartbeat":
		return envKeys(path)
	case "job", "job.checkpoint", "job.restart":
		return jobKeys(path)
	case "lsm":
		return lsmKeys()
	case "arm", "changelog", "changelog.materialize", "changelog.batch", "changelog.upload":
		return armKeys(path)
	case "phases", "phases.heal", "phases.drain", "phases.verify":
		return phaseKeys(path)
	case "phases.steps", "phases.steps.stop", "phases.steps.start":
		return stepKeys(path)
	case "phases.faults", "phases.rescale", "phases.at":
		return eventKeys(path)
	case "expect.statement":
		return []key{
			{name: "is", kind: "statement", need: true, about: "an operator and a value with its unit: < 1s"},
			{name: "ifNone", kind: "word", words: []string{"miss", "pass"}, about: "what it is when there is no sample"},
			{name: "arms", kind: "[]text", about: "the arms it is for; absent: all"},
		}
	case "sim":
		return []key{
			{name: "rate", kind: "rate", about: "instead of source.rate"},
			{name: "records", kind: "share", about: "scales records of phases and triggers"},
			{name: "keys", kind: "int", lo: 1, hi: maxCount, about: "number of keys"},
			{name: "sizes", kind: "size", about: "size of values"},
			{name: "speed", kind: "number", about: "seconds of a trace's time in a second"},
			{name: "duration", kind: "duration", about: "how long a whole trace takes"},
		}
	case "report":
		return []key{
			{name: "charts", kind: "[]chart", about: "which charts the page has, in order; absent: all"},
			{name: "maxResults", kind: "size", about: "what the files of a run may reach"},
		}
	}
	return profileBlock(path)
}

func topKeys() []key {
	return []key{
		{name: "apiVersion", kind: "word", words: []string{"bench/v1"}, need: true, about: "version of this format"},
		{name: "kind", kind: "word", words: []string{"Scenario"}, need: true},
		{name: "name", kind: "name", need: true, about: "also the folder of the results"},
		{name: "about", kind: "text", about: "what the scenario shows"},
		{name: "tags", kind: "[]name", about: "for selecting scenarios"},
		{name: "seed", kind: "seed", about: "every random choice follows from it; absent: drawn"},
		{name: "params", kind: "params", about: "values that ${name} stands for; --set name=value wins"},
		{name: "env", kind: "@env", about: "where it runs"},
		{name: "job", kind: "@job", about: "settings of the engine"},
		{name: "arms", kind: "arms", need: true, about: "the variants"},
		{name: "baseline", kind: "text", about: "the arm that the others are compared with"},
		{name: "workload", kind: "workload", need: true, about: "job and input"},
		{name: "sim", kind: "@sim", about: "other values for the simulated world"},
		{name: "phases", kind: "phases", need: true, about: "what happens"},
		{name: "expect", kind: "expect", about: "what the figures of each run must be"},
		{name: "report", kind: "@report"},
	}
}

func envKeys(path string) []key {
	switch path {
	case "env":
		return []key{
			{name: "world", kind: "word", words: []string{"real", "sim"}, about: "real time, or a virtual clock"},
			{name: "store", kind: "@env.store", about: "the object store"},
			{name: "workers", kind: "@env.workers", about: "the units that can crash"},
		}
	case "env.store":
		return []key{
			{name: "kind", kind: "word", words: storeKinds(), about: "embedded where absent"},
			{name: "profile", kind: "profile", about: "local, s3-standard, a file, or the figures: what requests take in addition"},
			{name: "prices", kind: "prices", about: "a file, or the figures: what requests and bytes are billed at"},
			{name: "spread", kind: "int", lo: 2, hi: maxSpread, about: "prefixes over which the keys of data objects are spread by a hash; absent: each kind has one"},
			{name: "image", kind: "text", about: "of store minio: name or name@sha256:digest; absent: one built here"},
			{name: "limits", kind: "@env.store.limits", about: "of the container of store minio"},
			{name: "proxy", kind: "word", words: []string{"tcp"}, about: "stable address of the container of store minio, always there"},
		}
	case "env.store.limits":
		return []key{
			{name: "cpus", kind: "number", about: "cores"},
			{name: "memory", kind: "size"},
		}
	case "env.workers":
		return []key{
			{name: "count", kind: "int", lo: 1, hi: maxWorkers, about: "numbered from 0"},
			{name: "slots", kind: "int", lo: 1, hi: maxWorkers, about: "subtasks of each operator that a worker can host"},
			{name: "cores", kind: "int", lo: 1, hi: maxWorkers, about: "simulated cores of a worker"},
			{name: "heartbeat", kind: "@env.workers.heartbeat", about: "how silence is noticed"},
		}
	}
	return []key{
		{name: "every", kind: "duration"},
		{name: "timeout", kind: "duration", about: "silence after which a worker counts as lost"},
	}
}

func jobKeys(path string) []key {
	switch path {
	case "job":
		return []key{
			{name: "parallelism", kind: "int", lo: 1, hi: maxMax, about: "subtasks of each operator at the start"},
			{name: "maxParallelism", kind: "int", lo: 1, hi: maxMax, about: "key groups"},
			{name: "checkpoint", kind: "@job.checkpoint"},
			{name: "restart", kind: "@job.restart", about: "when a failed job is started again"},
			{name: "restartDelay", kind: "duration", about: "short for restart.delay"},
			{name: "bufferRecords", kind: "int", lo: 1, hi: plan.MaxBuffer, about: "records a buffer between subtasks holds"},
			{name: "credits", kind: "int", lo: 1, hi: plan.MaxCredits, about: "buffers a channel holds"},
			{name: "flushEvery", kind: "duration", about: "how long a partly filled buffer waits"},
			{name: "backend", kind: "backend", about: "for arms that do not say otherwise"},
			{name: "changelog", kind: "@changelog", about: "for arms that do not say otherwise"},
			{name: "lsm", kind: "@lsm", about: "for arms that do not say otherwise"},
			{name: "localRecovery", kind: "bool", about: "for arms that do not say otherwise"},
			{name: "localCopies", kind: "size", about: "for arms that do not say otherwise"},
		}
	case "job.checkpoint":
		return []key{
			{name: "interval", kind: "duration", about: "from trigger to trigger"},
			{name: "timeout", kind: "duration", about: "an unfinished checkpoint is aborted then"},
			{name: "minPause", kind: "duration", about: "least time from the end of one to the trigger of the next"},
			{name: "retain", kind: "int", lo: 1, hi: plan.MaxRetain, about: "completed checkpoints that are kept"},
			{name: "maxConcurrent", kind: "int", lo: 1, hi: plan.MaxConcurrent, about: "checkpoints under way at a time"},
			{name: "semantics", kind: "word", words: []string{"exactly-once"}},
			{name: "tolerableFailures", kind: "int", lo: 0, hi: plan.MaxFailures, about: "checkpoints that may fail in a row before the job is restarted; absent: any number"},
			{name: "deletesPerSecond", kind: "int", lo: 1, hi: plan.MaxDeletes, about: "objects that the leader deletes in a second while the job runs; absent: as fast as it goes"},
		}
	}
	return []key{
		{name: "strategy", kind: "word", words: strategyNames(), about: "fixed-delay where absent"},
		{name: "attempts", kind: "int", lo: 1, hi: plan.MaxFailures, about: "restarts before the job is given up; absent: any number"},
		{name: "failures", kind: "int", lo: 1, hi: plan.MaxFailures, about: "of failure-rate: allowed in any stretch of within"},
		{name: "within", kind: "duration", about: "of failure-rate"},
		{name: "delay", kind: "duration", about: "from a detected failure to the next attempt"},
		{name: "maxDelay", kind: "duration", about: "of exponential-delay: the longest"},
		{name: "multiplier", kind: "number", about: "of exponential-delay: from one delay to the next"},
		{name: "jitter", kind: "share", about: "of exponential-delay: the delay varies by this much"},
		{name: "resetAfter", kind: "duration", about: "of exponential-delay: time without a failure after which it begins anew"},
	}
}

func armKeys(path string) []key {
	switch path {
	case "arm":
		return []key{
			{name: "backend", kind: "backend", about: "state backend; with a changelog, the one inside it"},
			{name: "changelog", kind: "@changelog"},
			{name: "lsm", kind: "@lsm", about: "sizes of backend lsm"},
			{name: "localRecovery", kind: "bool", about: "workers keep copies of what they upload on their disks, and restore from them"},
			{name: "localCopies", kind: "size", about: "bytes of such copies that a worker's disk holds at most"},
			{name: "workload", kind: "options", about: "options of the workload that differ in this arm"},
		}
	case "changelog":
		return []key{
			{name: "enabled", kind: "bool", about: "log every change and materialize in the background"},
			{name: "materialize", kind: "@changelog.materialize"},
			{name: "preemptive", kind: "size", about: "unsent bytes above which a writer uploads ahead of the checkpoint"},
			{name: "batch", kind: "@changelog.batch", about: "what becomes one object"},
			{name: "inFlight", kind: "size", about: "log bytes of a worker that may be unsent or under way before its tasks wait"},
			{name: "storage", kind: "word", words: plan.LogStorages(), about: "where the log lies: the object store, files that survive workers, or memory that does not"},
			{name: "upload", kind: "@changelog.upload", about: "how uploads of the log are tried again"},
		}
	case "changelog.upload":
		return []key{
			{name: "retryShare", kind: "share", about: "retries that an upload which succeeds allows, over all of a worker"},
			{name: "retriesPerSecond", kind: "int", lo: 1, hi: plan.MaxRetries, about: "retries of a worker that are allowed in a second beside these; further ones wait"},
			{name: "hedgeAfter", kind: "duration", about: "an upload that takes longer gets a second attempt beside the first; absent: none does"},
			{name: "hedgeShare", kind: "share", about: "part of a worker's uploads that may have one"},
		}
	case "changelog.materialize":
		return []key{
			{name: "enabled", kind: "bool", about: "false: never, and the log grows"},
			{name: "every", kind: "duration", about: "from one materialization of a subtask to the next"},
			{name: "growth", kind: "share-or-off", about: "or when its log has grown beyond this part of its base"},
			{name: "growthFloor", kind: "size", about: "and beyond this: a small state is left to the interval"},
			{name: "replayBudget", kind: "duration-or-off", about: "or when replaying its log would take longer, by the time that its last restore took"},
			{name: "concurrent", kind: "int", lo: 1, hi: maxWorkers, about: "subtasks of a worker that materialize at a time; absent: all may"},
			{name: "concurrentJob", kind: "int", lo: 1, hi: maxMax, about: "subtasks of the whole job that materialize at a time, the others wait for their turn; absent: all may"},
		}
	}
	return []key{
		{name: "delay", kind: "duration", about: "what waits this long, over the subtasks of a worker, becomes one object"},
		{name: "size", kind: "size", about: "or this much"},
	}
}

func phaseKeys(path string) []key {
	within := key{name: "within", kind: "duration", about: "else the run fails"}
	id := key{name: "name", kind: "name", need: true}
	switch path {
	case "phases":
		within.about = "with steps: else the run fails"
		return []key{id,
			{name: "for", kind: "duration", about: "ends after this time"},
			{name: "records", kind: "int", lo: 1, hi: maxCount, about: "ends when the sources together have emitted so many"},
			{name: "steps", kind: "[]@phases.steps", about: "ends with the last of these"},
			within,
			{name: "discard", kind: "bool", about: "left out of statistics"},
			{name: "faults", kind: "[]@phases.faults"},
			{name: "rescale", kind: "[]@phases.rescale"},
		}
	case "phases.heal":
		return []key{id, {name: "heal", kind: "word", words: []string{"all"}, about: "every fault in force is healed"},
			{name: "until", kind: "word", words: []string{plan.UntilRecovered}}, within}
	case "phases.drain":
		return []key{id, {name: "source", kind: "word", words: []string{"stop"}, about: "records under way arrive"},
			{name: "final", kind: "[]text", about: "the last thing taken: checkpoint"},
			{name: "until", kind: "word", words: []string{plan.UntilDrained}}, within,
			{name: "gcGrace", kind: "duration", about: "time left for deletes of unknown outcome"}}
	}
	return []key{id,
		{name: "check", kind: "checks", about: "all, or names of bench list checks"},
		{name: "audit", kind: "word", words: []string{"retained"}, about: "every retained checkpoint is restored and compared with the model"},
		{name: "until", kind: "word", words: []string{plan.UntilVerified}}, within,
		{name: "restoreDigests", kind: "bool", about: "digests of state at each restore in the run"},
		{name: "recordIds", kind: "bool", about: "the sink keeps the id of each record"},
	}
}

func stepKeys(path string) []key {
	forms := []string{plan.Canonical, plan.Native}
	switch path {
	case "phases.steps":
		return []key{
			{name: "savepoint", kind: "word", words: forms, about: "takes one, and the job goes on"},
			{name: "stop", kind: "@phases.steps.stop", about: "stops the job"},
			{name: "start", kind: "@phases.steps.start", about: "starts the stopped job again"},
		}
	case "phases.steps.stop":
		return []key{{name: "savepoint", kind: "word", words: forms, about: "absent: cancelled at once, retained checkpoints stay"}}
	}
	return []key{
		{name: "from", kind: "word", words: []string{plan.FromSavepoint, plan.FromCheckpoint}, need: true},
		{name: "mode", kind: "word", words: []string{plan.ModeClaim, plan.ModeNoClaim, plan.ModeLegacy},
			about: "who owns that from then on; absent: no-claim for a savepoint, claim for a checkpoint"},
		{name: "parallelism", kind: "int", lo: 1, hi: maxMax, about: "absent: as before"},
		{name: "arm", kind: "text", about: "the arm whose backend it takes; absent: as before"},
		{name: "schema", kind: "int", lo: 1, hi: plan.MaxSchema, about: "in which the workload stores its state from then on, and what it restores is converted to; absent: as before, at first 1"},
	}
}

func eventKeys(path string) []key {
	at := key{name: "at", kind: "@phases.at", need: true, about: "the trigger: one of time, record, event, phase"}
	switch path {
	case "phases.faults":
		return []key{
			{name: "id", kind: "name", need: true, about: "names it in results, charts and since"},
			{name: "fault", kind: "fault", need: true},
			{name: "where", kind: "text", need: true, about: "worker/<number>, worker/any, subtask/<operator>-<index>, subtask/any, store"},
			{name: "with", kind: "with", about: "options of the fault"},
			at,
			{name: "for", kind: "duration", about: "then it is healed; absent: in phase heal"},
			{name: "arms", kind: "[]text", about: "the arms that get it; absent: all"},
		}
	case "phases.rescale":
		return []key{at,
			{name: "to", kind: "int", lo: 1, hi: maxMax, need: true, about: "the new parallelism"},
			{name: "from", kind: "word", words: []string{"latest", "previous"}, about: "a fresh checkpoint, or the newest completed one"},
		}
	}
	return []key{
		{name: "time", kind: "duration", about: "after the phase began"},
		{name: "record", kind: "int", lo: 1, hi: maxCount, about: "the sources together reach this record of the phase"},
		{name: "event", kind: "event", about: "at the count-th such event since"},
		{name: "count", kind: "int", lo: 1, hi: 1<<31 - 1},
		{name: "since", kind: "text", about: "phase, run, or the id of a fault"},
		{name: "phase", kind: "word", words: []string{"start"}},
	}
}

// profileBlock is the keys of a store profile and of a price list.
func profileBlock(path string) []key {
	switch path {
	case "prices.file":
		return append([]key{
			{name: "apiVersion", kind: "word", words: []string{"bench/v1"}, need: true},
			{name: "kind", kind: "word", words: []string{"StorePrices"}, need: true},
		}, profileBlock("prices")...)
	case "prices":
		return []key{
			{name: "name", kind: "name", need: true, about: "what tables call it"},
			{name: "about", kind: "text", about: "where the figures come from"},
			{name: "write", kind: "number", need: true, about: "dollars for a thousand puts or listings"},
			{name: "read", kind: "number", need: true, about: "dollars for a thousand gets"},
			{name: "delete", kind: "number", about: "dollars for a thousand deletes"},
			{name: "stored", kind: "number", need: true, about: "dollars for a GiB and month"},
			{name: "sent", kind: "number", about: "dollars for a GiB to the store"},
			{name: "received", kind: "number", about: "dollars for a GiB from the store"},
		}
	case "profile.file":
		return append([]key{
			{name: "apiVersion", kind: "word", words: []string{"bench/v1"}, need: true},
			{name: "kind", kind: "word", words: []string{"StoreProfile"}, need: true},
		}, profileBlock("profile")...)
	case "profile":
		return []key{
			{name: "name", kind: "name", need: true, about: "what tables and results call it"},
			{name: "about", kind: "text", about: "where the figures come from"},
			{name: "put", kind: "@profile.operation"},
			{name: "get", kind: "@profile.operation"},
			{name: "stat", kind: "@profile.operation"},
			{name: "list", kind: "@profile.operation"},
			{name: "delete", kind: "@profile.operation"},
			{name: "bandwidth", kind: "@profile.bandwidth"},
			{name: "requests", kind: "@profile.requests"},
		}
	case "profile.operation":
		return []key{{name: "p50", kind: "duration", need: true, about: "time to the first byte"}, {name: "p99", kind: "duration"}}
	case "profile.bandwidth":
		return []key{{name: "connection", kind: "bandwidth"}, {name: "worker", kind: "bandwidth"}, {name: "store", kind: "bandwidth"}}
	case "profile.requests":
		return []key{{name: "write", kind: "rate"}, {name: "read", kind: "rate"}}
	}
	panic("scenario: there is no block " + path)
}

// names lists the keys of a block.
func names(keys []key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}
