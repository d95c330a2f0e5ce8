package faults

import "statebench.dev/bench/internal/history"

// NewCutBody makes the fault cut-body: the connection breaks in the middle of a body or a listing. A get then brings
// nothing, a put stores nothing, but the system cannot know that. Where: store. Options: op (put, get, list; absent: all of
// these), prefix, share, request.
func NewCutBody(s Spec) (Fault, error) {
	var o storeOptions
	r, err := rule(s, &o, "op", "prefix", "share", "request")
	if err != nil {
		return nil, err
	}
	bodies := []string{history.OpPut, history.OpGet, history.OpList}
	if err := of(r, bodies...); err != nil {
		return nil, err
	}
	if len(r.Ops) == 0 {
		r.Ops = bodies
	}
	r.Cut = true
	return valid(r, "was cut in the middle")
}
