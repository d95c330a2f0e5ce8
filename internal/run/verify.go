package run

import (
	"context"
	"errors"
	"fmt"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/audit"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
	"statebench.dev/bench/internal/world"

	"github.com/zeebo/xxh3"
)

// OpenBackend makes the state backend of a plan's arm.
func OpenBackend(deps Deps, p *plan.Plan) (backend.Factory, error) {
	entry, err := deps.Backends.Find(p.Backend.Name)
	if err != nil {
		return nil, err
	}
	return entry.New(p.Backend, p.Seed)
}

func partitions(job *graph.Job) int {
	for _, n := range job.Nodes {
		if n.Source != nil {
			return n.Source.Partitions()
		}
	}
	return 0
}

// verify is the last phase: the audit writes what is left in the store, the sink what was committed. output.json comes
// last: its presence says that the evidence is whole.
func (r *run) verify(ctx context.Context) (err error) {
	name := plan.UntilVerified
	for _, ph := range r.plan.Phases {
		if ph.Until == plan.UntilVerified {
			name = ph.Name
		}
	}
	r.record(ctx, history.Event{Kind: history.PhaseBegin, Actor: "run", Phase: name})
	var files []*results.Lines
	open := func(name string) func(v any) error {
		l, e := results.CreateLines(r.dir.Path(name))
		if e != nil {
			err = errors.Join(err, e)
			return nil
		}
		files = append(files, l)
		return l.Append
	}
	e := audit.Env{World: r.world, Bucket: r.store.run, Backend: r.backendOf, Job: r.workload.Job(), Model: r.workload.Model, Schema: r.schemaOf,
		Listing: open(results.ListingFile), CoordLog: open(results.CoordLogFile), States: open(results.StatesFile)}
	if err == nil {
		// What is asked after the run is no part of it: the profile's latency would only make the user wait.
		err = audit.Run(store.AtNoCost(ctx), e)
	}
	for _, l := range files {
		r.evidence = append(r.evidence, l.Digest())
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	r.record(ctx, history.Event{Kind: history.PhaseEnd, Actor: "run", Phase: name, Records: r.engine.Progress().Emitted()})
	return results.WriteJSON(r.dir.Path(results.OutputFile), r.collect.Result())
}

// digest is a hash over the order of all steps of the simulated world, the history, the object trace, the references and
// the evidence of the verify phase, each with every field. Verdicts and tables follow from those.
func (r *run) digest() string {
	sum := xxh3.New()
	if sim, ok := r.world.(*world.Sim); ok {
		_, _ = fmt.Fprintf(sum, "%016x", sim.Digest())
	}
	for _, d := range append([]string{r.recorder.Digest(), r.objects.Digest(), r.refs.Digest()}, r.evidence...) {
		_, _ = sum.WriteString(d)
	}
	b := sum.Sum128().Bytes()
	return fmt.Sprintf("%x", b[:])
}
