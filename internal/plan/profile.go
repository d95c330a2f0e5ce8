package plan

import (
	"time"

	"statebench.dev/bench/internal/registry"
)

// Local is the profile that adds nothing.
const Local = "local"

// Profile is what a store's requests take in addition to what the store itself takes. The zero value adds nothing.
type Profile struct {
	About string `json:"about,omitempty"`
	// The times to the first byte: of a put, a get, a stat, each page of a listing, each bulk delete of up to 1,000 keys.
	Put       FirstByte `json:"put"`
	Get       FirstByte `json:"get"`
	Stat      FirstByte `json:"stat"`
	List      FirstByte `json:"list"`
	Delete    FirstByte `json:"delete"`
	Bandwidth Bandwidth `json:"bandwidth"`
	Requests  Requests  `json:"requests"`
}

// FirstByte is a log-normal distribution, given by two of its quantiles. They are equal where nothing varies.
type FirstByte struct {
	P50 Duration `json:"p50"`
	P99 Duration `json:"p99"`
}

// Bandwidth is in bytes a second; 0 is no limit. Requests of one worker share Worker, all of them share Store.
type Bandwidth struct {
	Connection registry.Bytes `json:"connection"`
	Worker     registry.Bytes `json:"worker"`
	Store      registry.Bytes `json:"store"`
}

// Requests are how many requests a second a store takes under one prefix before it throttles; 0 is no limit.
type Requests struct {
	Write registry.Rate `json:"write,omitzero"`
	Read  registry.Rate `json:"read,omitzero"`
}

// Zero tells whether the profile adds nothing.
func (p Profile) Zero() bool {
	p.About = ""
	return p == Profile{}
}

// maxFirstByte bounds what a profile may say: a request is given up after 10 s.
const maxFirstByte = Duration(5 * time.Second)

// Validate reports every problem of the figures, each beginning with the dotted name of what it is about.
func (p Profile) Validate() []error {
	var e problems
	for _, o := range []struct {
		name string
		f    FirstByte
	}{{"put", p.Put}, {"get", p.Get}, {"stat", p.Stat}, {"list", p.List}, {"delete", p.Delete}} {
		e.add(o.f.P50 < 0 || o.f.P99 > maxFirstByte, "%s.p99 must be 0s to %s, is %s", o.name, maxFirstByte, o.f.P99)
		e.add(o.f.P99 < o.f.P50, "%s.p99 %s is less than its p50 %s", o.name, o.f.P99, o.f.P50)
		e.add(o.f.P50 == 0 && o.f.P99 > 0, "%s.p50 is 0 and its p99 is not", o.name)
	}
	b, r := p.Bandwidth, p.Requests
	e.add(b.Connection < 0 || b.Worker < 0 || b.Store < 0, "bandwidth is negative")
	e.add(r.Write < 0 || r.Read < 0, "requests are negative")
	return e
}
