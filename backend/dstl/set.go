package dstl

// progress says where a closed change set stands.
type progress uint8

const (
	unsent progress = iota // waiting in its writer
	sent                   // part of an upload that has not ended
	stored                 // durable
)

// set is a closed change set. Its fields are guarded by the log's mutex, except that changes is read without it by the
// upload that owns the set while it is sent.
type set struct {
	seq     uint64
	changes *changeSet // nil once stored or dropped
	raw     int64      // size before framing
	epoch   uint64     // the checkpoint that was cut last before the set was closed; the next one is the first to need it
	state   progress
	up      *upload // while sent
	held    bool    // in its writer's range: neither truncated nor closed
	pins    int     // checkpoints that need it
	early   bool    // uploaded without a checkpoint
	first   uint64  // the checkpoint that first referenced it, 0 for none
	err     error   // of the last upload that failed

	part *part // where it is, once framed
	at   int64 // where its blocks begin in the part
	cost int64 // its bytes in the object
}

// needed tells whether somebody may still ask for s.
func (s *set) needed() bool { return s.held || s.pins > 0 }

// part is a section of an object: consecutive change sets of one writer.
type part struct {
	object         *object
	offset, length int64
}

// object is a segment put by this log. It is dropped from memory with the last set that refers to it.
type object struct {
	key   string
	bytes int64
	crc   uint32
	live  int     // change sets in it that are needed
	owned bool    // by the coordinator's registry
	began *writer // whose changes began the batch
	first uint64  // the checkpoint of began that first referenced it
}

// pin keeps the changes of one checkpoint until its end is known.
type pin struct {
	checkpoint uint64
	from, to   uint64
	sets       []*set
	persisted  bool // references were handed out
	gone       bool // confirmed, reset or closed
}
