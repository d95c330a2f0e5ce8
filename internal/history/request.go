package history

import "time"

// Applied says whether a request had its effect on the store.
type Applied string

// The three answers. For a read, AppliedYes means that it was answered.
const (
	AppliedYes     Applied = "yes"
	AppliedNo      Applied = "no"
	AppliedUnknown Applied = "unknown"
)

// Names of operations in Request.Op.
const (
	OpPut     = "put"
	OpGet     = "get"
	OpStat    = "stat"
	OpList    = "list"
	OpDelete  = "delete"
	OpUploads = "uploads"
	OpAbort   = "abort"
)

// Request is one row of the object trace (objects.jsonl): one request to the object store as the run saw it, a retry being
// a row of its own. A bulk delete is one row a key. Rows are written when a request ends, so Seq, which is given when it
// begins, need not grow from row to row.
type Request struct {
	// Seq numbers the requests of a run from 1 in the order in which they began.
	Seq uint64 `json:"seq"`
	// Start is the offset since the run began; Start+Duration is when the answer was there. For a listing the time that
	// the caller spent between entries is not part of Duration.
	Start    time.Duration `json:"start"`
	Duration time.Duration `json:"dur"`
	// Op is one of the Op names, Key the object's key without the run's prefix (the prefix asked for, where Op is list or uploads).
	Op  string `json:"op"`
	Key string `json:"key"`
	// Same marks a further row of the request that the row with the next lower Seq is of: a delete of up to 1,000 keys is one
	// request with a row a key.
	Same bool `json:"same,omitempty"`
	// Offset is where a ranged get began.
	Offset int64 `json:"off,omitempty"`
	// Bytes is the size of the body sent or received, Count the number of entries that a listing gave.
	Bytes int64 `json:"bytes,omitempty"`
	Count int64 `json:"n,omitempty"`
	// CRC32C is the Castagnoli checksum of the body sent or received, 0 where there is none.
	CRC32C uint32 `json:"crc,omitempty"`
	// IfAbsent marks a put that must not replace an object.
	IfAbsent bool `json:"ifAbsent,omitempty"`
	// Applied is the effect on the store as far as the harness knows, which injected faults may hide from the caller.
	Applied Applied `json:"applied"`
	// Injected marks a request that a fault of the plan touched, be it with an error or a delay.
	Injected bool `json:"injected,omitempty"`
	// Throttled marks a request that the store refused because there were too many.
	Throttled bool `json:"throttled,omitempty"`
	// On whose behalf: the execution attempt, the process's owner, the purpose, the checkpoint (0 for none).
	Attempt    uint64 `json:"attempt,omitempty"`
	Who        string `json:"who,omitempty"`
	Cause      string `json:"cause,omitempty"`
	Checkpoint uint64 `json:"cp,omitempty"`
	// Error is the text of the error that the caller got; empty for none.
	Error string `json:"error,omitempty"`
	// Log marks a request to a storage of the changelog beside the object store, such as files.
	Log bool `json:"log,omitempty"`
	// Open marks a request whose process was killed inside it: nobody got an answer.
	Open bool `json:"open,omitempty"`
}
