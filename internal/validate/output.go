package validate

import (
	"fmt"

	"statebench.dev/bench/internal/sinks"
)

// output is S2: every expected output record is committed exactly once, and nothing else.
type output struct{ c *Case }

func (j *output) Finish() Verdict {
	if !j.c.Complete {
		return unverified()
	}
	if len(j.c.Restores) == 0 {
		return inconclusive("no checkpoint was left to say how far the sources came")
	}
	if err := j.c.truth.err; err != nil {
		return inconclusive("what should be there is not known: %v", err) // S1 and S3 fail for it
	}
	var f findings
	o, want := j.c.Output, j.c.truth.output
	seen := map[outputID]bool{}
	for _, g := range o.Groups {
		at := outputID{g.Partition, g.Group}
		seen[at] = true
		w := want[at]
		if g.Count != w.Count || g.Digest != w.String() {
			f.add(0, "source partition %d, key group %d: %d records committed with digest %s, the model has %d with %s",
				g.Partition, g.Group, g.Count, g.Digest, w.Count, w.String())
		}
	}
	for at, w := range want { // order-free: only the number and the smallest are told
		if !seen[at] {
			f.add(0, "source partition %d, key group %d: nothing committed, the model has %d records", at.partition, at.group, w.Count)
		}
	}
	if o.DuplicateCount > 0 {
		f.add(0, "%d records were committed more than once: %s", o.DuplicateCount, identities(o.Duplicates))
	}
	if o.Strays > 0 {
		f.add(0, "%d records have an identity that cannot exist", o.Strays)
	}
	if o.PendingRecords > 0 {
		f.add(0, "%d records lie in %d transactions that are neither committed nor aborted", o.PendingRecords, o.Pending)
	}
	if f.count > 0 && o.IDs {
		d := o.Compare(j.c.truth.model, j.c.truth.final, j.c.truth.model.OutputTags(), maxEvidence)
		if d.LostCount > 0 {
			f.add(0, "%d records are lost: %s", d.LostCount, identities(d.Lost))
		}
		if d.UnexpectedCount > 0 {
			f.add(0, "%d records were not expected: %s", d.UnexpectedCount, identities(d.Unexpected))
		}
	}
	return f.verdict("%d records committed exactly once in %d transactions", o.Records, o.Committed)
}

func identities(list []sinks.Identity) string {
	s := ""
	for i, id := range list {
		if i == 3 {
			return s + " ..."
		}
		s += fmt.Sprintf(" %d/%d/%d", id.Partition, id.Index, id.Tag)
	}
	return s
}
