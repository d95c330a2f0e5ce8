package faults

import "statebench.dev/bench/internal/history"

// NewFlippedByte makes the fault flipped-byte: a get brings a body with one byte changed, without an error. Where: store.
// Options: prefix, share, request, and op, which can be get only: stores refuse a put whose body does not have the checksum
// that was sent along, and what is damaged at rest no healing makes whole.
func NewFlippedByte(s Spec) (Fault, error) {
	var o storeOptions
	r, err := rule(s, &o, "op", "prefix", "share", "request")
	if err != nil {
		return nil, err
	}
	if err := of(r, history.OpGet); err != nil {
		return nil, err
	}
	if len(r.Ops) == 0 {
		r.Ops = []string{history.OpGet}
	}
	r.Flip = true
	return valid(r, "brought a flipped byte")
}
