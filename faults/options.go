package faults

// Option describes one option of a fault.
type Option struct {
	Name  string
	Kind  string // text, share, int, duration
	About string
}

// Options lists the options of a kind of fault; none for an unknown kind.
func Options(kind string) []Option {
	where := []Option{
		{"op", "text", "put, get, list, stat or delete, several joined by |; absent: all"},
		{"prefix", "text", "what the keys concerned begin with: log/, base/, meta/, coord/"},
		{"share", "share", "the share of the matching requests that is touched; absent: all"},
		{"request", "int", "only the n-th matching request"},
	}
	switch kind {
	case "worker-crash":
		return []Option{{"disk", "text", "keep what was synced, or lose everything"}}
	case "store-errors":
		return append(where, Option{"status", "int", "403, 429 or 5xx; 503 where absent"})
	case "store-latency":
		return append(where, Option{"delay", "duration", "how much longer a request takes"}, Option{"jitter", "duration", "up to so much more, equally distributed"})
	case "store-outage":
		return where[:2]
	case "lost-ack":
		where[0].About = "put, delete or abort, several joined by |; absent: all of these"
		return where
	case "cut-body":
		where[0].About = "put, get or list, several joined by |; absent: all of these"
		return where
	case "flipped-byte":
		where[0].About = "get"
		return where
	}
	return nil
}
