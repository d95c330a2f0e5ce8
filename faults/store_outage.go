package faults

import "net/http"

// NewStoreOutage makes the fault store-outage: every request concerned fails as long as it is in force, without effect; of a
// put the system does not learn that. Where: store. Options: op, prefix; absent: all requests.
func NewStoreOutage(s Spec) (Fault, error) {
	var o storeOptions
	r, err := rule(s, &o, "op", "prefix")
	if err != nil {
		return nil, err
	}
	r.Status = http.StatusInternalServerError
	return valid(r, "failed")
}
