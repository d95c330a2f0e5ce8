package catalog

import (
	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/lsm"
	"statebench.dev/bench/backend/savepoint"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/scrub"
)

// Formats are the kinds of objects that checkpoints and savepoints name.
func Formats() []scrub.Format {
	return []scrub.Format{
		{Name: "log segment", Magic: dstl.Magic, Verify: func(o scrub.Object) error { return dstl.Verify(o, o.Size, o.Refs) }},
		{Name: "heap snapshot", Magic: heap.Magic, Verify: func(o scrub.Object) error { return heap.Verify(o.Key, o, o.Size) }},
		{Name: "lsm manifest", Magic: lsm.Magic, Verify: func(o scrub.Object) error { return lsm.Verify(o.Key, o, o.Size) }},
		{Name: "canonical savepoint", Magic: savepoint.Magic, Verify: func(o scrub.Object) error { return savepoint.Verify(o.Key, o, o.Size) }},
		{Name: "lsm table", Ext: lsm.TableExt, Verify: func(o scrub.Object) error { return lsm.Verify(o.Key, o, o.Size) }},
	}
}

// Reader makes a backend that opens state of a form as handles name it (backend.StateHandle.Backend), with or without a
// log: state in the canonical form is read by the one in memory.
func Reader(form string) (backend.Factory, error) {
	if form == "" || form == backend.Canonical {
		form = heap.Name
	}
	entry, err := Backends().Find(form)
	if err != nil {
		return nil, err
	}
	return entry.New(plan.Backend{Name: form, Changelog: plan.Changelog{Enabled: true}}, 0)
}
