package plan

import "math"

// Prices are what an object store bills, in US dollars.
type Prices struct {
	// Name says which list they are, in kebab-case.
	Name string `json:"name"`
	// About says where the figures are from.
	About string `json:"about,omitempty"`
	// Write, Read and Delete are of a thousand requests: puts and listings; gets and questions for one object; deletes of up to
	// 1,000 keys each, and aborted uploads.
	Write  float64 `json:"write"`
	Read   float64 `json:"read"`
	Delete float64 `json:"delete"`
	// Stored is of a GiB that lies there for a month of 30 days; Sent and Received of a GiB that goes to the store or comes from it.
	Stored   float64 `json:"stored"`
	Sent     float64 `json:"sent"`
	Received float64 `json:"received"`
}

// StandardPrices are the list prices of S3 Standard in us-east-1 as they have long been, for the first 50 TB and a job in the same
// region, where traffic to and from the store is free. They are not looked up: who pays compares them with a bill.
func StandardPrices() Prices {
	return Prices{Name: "s3-standard-us-east-1", About: "List prices of S3 Standard in us-east-1, the job in the same region.",
		Write: 0.005, Read: 0.0004, Stored: 0.023}
}

// Validate reports every problem, each beginning with the name of the figure it is about. Figures are finite and not negative.
func (p Prices) Validate() []error {
	var e problems
	e.add(p.Name == "", "name is missing")
	for _, f := range []struct {
		name  string
		value float64
	}{{"write", p.Write}, {"read", p.Read}, {"delete", p.Delete}, {"stored", p.Stored}, {"sent", p.Sent}, {"received", p.Received}} {
		e.add(math.IsNaN(f.value) || f.value < 0 || f.value > MaxPrice, "%s must be 0 to %d dollars, is %v", f.name, MaxPrice, f.value)
	}
	return e
}

// MaxPrice bounds a price: what is above is a slip.
const MaxPrice = 1_000_000

// Usage is what is billed: requests, bytes moved, and bytes times the seconds for which they lay in the store.
type Usage struct {
	Writes, Reads, Deletes int64
	Sent, Received         int64
	ByteSeconds            float64
}

// Add adds another usage.
func (u *Usage) Add(v Usage) {
	u.Writes, u.Reads, u.Deletes = u.Writes+v.Writes, u.Reads+v.Reads, u.Deletes+v.Deletes
	u.Sent, u.Received, u.ByteSeconds = u.Sent+v.Sent, u.Received+v.Received, u.ByteSeconds+v.ByteSeconds
}

// Cost is what a usage costs, in US dollars.
func (p Prices) Cost(u Usage) float64 {
	const gib, month = 1 << 30, 30 * 24 * 3600
	requests := float64(u.Writes)*p.Write + float64(u.Reads)*p.Read + float64(u.Deletes)*p.Delete
	return requests/1000 + (u.ByteSeconds/month*p.Stored+float64(u.Sent)*p.Sent+float64(u.Received)*p.Received)/gib
}

// Billed are the prices of the plan's store: its own, else StandardPrices.
func (s Store) Billed() Prices {
	if s.Prices != nil {
		return *s.Prices
	}
	return StandardPrices()
}
