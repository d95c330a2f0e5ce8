package run

import (
	"errors"
	"fmt"

	"statebench.dev/bench/internal/registry"
)

// maxResults is the cap on a run's files where the plan gives none.
const maxResults = 4 << 30

// SizeError says that the files of a run have reached their cap: the run ends early and is inconclusive.
type SizeError struct{ Limit int64 }

// Error says what happened and what to do about it.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the results of this run have reached their cap of %s; shorten its phases or raise report.maxResults", registry.Bytes(e.Limit))
}

func oversized(err error) bool {
	var s *SizeError
	return errors.As(err, &s)
}

// keep makes what was recorded so far safe from the end of the program, and looks at its size. In the simulated world,
// where an hour may pass in a second, the buffers do.
func (r *run) keep() error {
	if !r.plan.Simulated() {
		for _, flush := range []func() error{r.recorder.Flush, r.events.Flush, r.objects.Flush, r.refs.Flush} {
			if err := flush(); err != nil {
				return &WriteError{err}
			}
		}
	}
	limit := r.plan.MaxResults
	if limit <= 0 {
		limit = maxResults
	}
	if r.dir.Size() > limit {
		return &SizeError{limit}
	}
	return nil
}
