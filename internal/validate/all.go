package validate

// All lists every check in the order in which verdicts are shown: assumptions first.
func All() []Check {
	return []Check{
		{"H1", "every planned fault hit, every heal confirmed, traffic met", func(c *Case) Judge {
			return &planned{c: c, hit: map[string]int64{}, healed: map[string]int64{}, missed: map[string]string{}, ended: map[string]bool{}}
		}},
		{"H2", "history complete, clocks monotonic", func(c *Case) Judge { return &complete{c: c} }},
		{"S1", "final keyed state equals the model", func(c *Case) Judge { return &finalState{c: c} }},
		{"S2", "each output record committed exactly once", func(c *Case) Judge { return &output{c: c} }},
		{"S3", "restored state equals the model at the checkpoint's positions", func(c *Case) Judge { return newRestoredState(c) }},
		{"S5", "key-group ranges disjoint and complete, each key on its owner", func(c *Case) Judge { return &ownership{c: c} }},
		{"O1", "source positions never go back inside an attempt", func(*Case) Judge { return &offsets{at: map[attemptPartition]int64{}} }},
		{"O2", "replay starts exactly at the restored position", func(*Case) Judge {
			return &replay{restored: map[uint64]uint64{}, positions: map[uint64][]int64{}, started: map[uint64]map[int]int64{},
				events: map[uint64]int64{}, triggered: map[uint64]uint64{}, running: map[uint64]bool{}}
		}},
		{"C1", "checkpoint ids strictly increase", func(*Case) Judge { return &ids{} }},
		{"C2", "each triggered checkpoint ends once", func(c *Case) Judge {
			return &ends{c: c, triggered: map[uint64]int64{}, ended: map[uint64]string{}, completed: map[uint64]int64{}, subsumed: map[uint64]int64{}}
		}},
		{"C3", "every retained checkpoint can be restored", func(c *Case) Judge { return &restorable{c: c, subsumed: map[uint64]bool{}} }},
		{"C4", "nothing of a fenced attempt or leader takes effect", func(c *Case) Judge {
			return &fencing{c: c, trigger: map[uint64]uint64{}, downs: map[string][]down{}}
		}},
		{"C5", "savepoints end once, are their own and untouched; the job stops and starts as planned", func(c *Case) Judge { return newSavepoints(c) }},
		{"F1", "no dangling reference", func(c *Case) Judge { return &dangling{c: c, trace: newTrace(), lives: newLives()} }},
		{"F2", "no orphan after grace", func(c *Case) Judge { return &orphans{c: c, trace: newTrace()} }},
		{"F4", "objects are immutable", func(*Case) Judge { return &immutable{newTrace()} }},
		{"F5", "no object deleted before its last reference was dropped", func(c *Case) Judge {
			return &deletions{c: c, trace: newTrace(), lives: newLives()}
		}},
		{"M1", "reported numbers equal the trace", func(c *Case) Judge { return newNumbers(c) }},
	}
}
