package faults

import "statebench.dev/bench/internal/history"

// NewLostAck makes the fault lost-ack: a put or delete has its effect, and its answer gets lost, so that the system does not
// know whether it had. Where: store. Options: op (put, delete, abort; absent: all of these), prefix, share, request.
func NewLostAck(s Spec) (Fault, error) {
	var o storeOptions
	r, err := rule(s, &o, "op", "prefix", "share", "request")
	if err != nil {
		return nil, err
	}
	writes := []string{history.OpPut, history.OpDelete, history.OpAbort}
	if err := of(r, writes...); err != nil {
		return nil, err
	}
	if len(r.Ops) == 0 {
		r.Ops = writes
	}
	r.LostAck = true
	return valid(r, "had its effect, and the answer was lost")
}
