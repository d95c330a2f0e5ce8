package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/world"
)

// Kind is what an entry of the coordinator log says.
type Kind string

// The kinds of entries.
const (
	Takeover Kind = "takeover" // Term: its writer leads from here on
	Reserve  Kind = "reserve"  // ID: checkpoint ids up to it may have been used
	Complete Kind = "complete" // ID completed, its metadata lies at Metadata
	Drop     Kind = "drop"     // ID is not retained any more
	// Savepoint: ID completed as a savepoint, its metadata lies at Metadata. It is the user's, and not dropped unless it is claimed.
	Savepoint Kind = "savepoint"
	// Start: the stopped job is started from ID in the given Mode. To claim makes it the job's again, a retained checkpoint. In the
	// other modes it is the user's from here on, with all checkpoints that are retained.
	Start Kind = "start"
)

// Mode says who owns what a job is started from.
type Mode string

// The modes.
const (
	// Claim: the job does, and deletes it when nothing needs it any more.
	Claim Mode = "claim"
	// NoClaim: the user does, and the first checkpoint of the job is self-contained.
	NoClaim Mode = "no-claim"
	// Legacy: nobody of the job deletes it, and later checkpoints may name its objects.
	Legacy Mode = "legacy"
)

// Entry is one entry of the coordinator log.
type Entry struct {
	Seq      uint64 `json:"seq"` // 1, 2, ... without a gap
	Kind     Kind   `json:"kind"`
	Term     uint64 `json:"term"`  // of the leader that wrote it
	Owner    string `json:"owner"` // a token of its own: two leaders never write equal bytes
	ID       uint64 `json:"id,omitempty"`
	Metadata string `json:"metadata,omitempty"` // key of the metadata object
	Mode     Mode   `json:"mode,omitempty"`     // of a start
}

// Retained is a completed checkpoint that was not dropped.
type Retained struct {
	ID       uint64
	Metadata string // key of its metadata object
}

// State is what the entries up to a sequence number say.
type State struct {
	Seq      uint64 // of the last entry; 0: none
	Term     uint64 // of the newest takeover; 0: nobody led yet
	Owner    string // of the newest takeover
	Reserved uint64 // ids up to here may have been used, so the next one is Reserved + 1 for a new leader
	Newest   uint64 // highest id that ever completed
	Retained []Retained
	// Savepoints are those that completed and were not claimed, in the order in which they did.
	Savepoints []Retained
	// Released are the checkpoints that are the user's since a job was started from one of them, oldest first.
	Released []Retained
	// Origin is what the job was started from without claiming it, as long as no checkpoint has completed since; Mode is empty when
	// there is none.
	Origin Retained
	Mode   Mode
}

// reserveStep is how many checkpoint ids one Reserve entry covers.
const reserveStep = 1000

// Log is one leader's view of the coordinator log and its way to append. It is used by one process at a time. State is
// what is known to stand in the store.
type Log struct {
	bucket store.Bucket
	world  world.World
	owner  string
	term   uint64 // the one we took over with; 0: not a leader
	state  State
	fenced error
	// open is an entry whose put had an unknown outcome and was then given up with its context. Nothing else may be written before it
	// is known whether it stands there.
	open  []byte
	pause time.Duration // between two tries to settle an unknown outcome
}

// OpenLog lists and reads the whole log. owner must be unlike that of any other leader, former lives included. An entry
// that is missing in the middle, or does not read, is an error that wraps store.ErrCorrupt.
func OpenLog(ctx context.Context, w world.World, b store.Bucket, owner string) (*Log, error) {
	l := &Log{bucket: b, world: w, owner: owner, pause: 200 * time.Millisecond}
	return l, l.catchUp(ctx)
}

// State returns a copy of what the log says as far as it was read and written by this Log.
func (l *Log) State() State {
	s := l.state
	s.Retained, s.Savepoints, s.Released = slices.Clone(s.Retained), slices.Clone(s.Savepoints), slices.Clone(s.Released)
	return s
}

// Term is the term this log's owner leads in; 0 before TakeOver.
func (l *Log) Term() uint64 { return l.term }

// catchUp reads all entries after the last known one.
func (l *Log) catchUp(ctx context.Context) error {
	entries, err := ReadEntries(ctx, l.world, l.bucket, l.state.Seq)
	for _, e := range entries {
		l.state.apply(e)
	}
	return err
}

// readers is how many entries are read at a time.
const readers = 16

// ReadEntries reads the coordinator log from entry after + 1 on. Errors are those of OpenLog, with the entries before the
// faulty one.
func ReadEntries(ctx context.Context, w world.World, b store.Bucket, after uint64) ([]Entry, error) {
	var keys []string
	from := ""
	if after > 0 {
		from = EntryKey(after)
	}
	for a, err := range b.List(ctx, EntryPrefix, from) {
		if err != nil {
			return nil, fmt.Errorf("list the coordinator log: %w", err)
		}
		if _, ok := ParseEntryKey(a.Key); ok {
			keys = append(keys, a.Key)
		}
	}
	entries, errs := make([]Entry, len(keys)), make([]error, len(keys))
	g := world.NewGroup(w)
	for i := range min(readers, len(keys)) {
		g.Go(ctx, fmt.Sprintf("read-coordinator-log-%d", i), func(ctx context.Context) error {
			for k := i; k < len(keys); k += readers {
				entries[k], errs[k] = readEntry(ctx, w, b, keys[k])
			}
			return nil
		})
	}
	if err := g.Wait(ctx); err != nil {
		return nil, err
	}
	for i, e := range entries {
		if errs[i] != nil {
			return entries[:i], errs[i]
		}
		if want := after + uint64(i) + 1; e.Seq != want {
			return entries[:i], fmt.Errorf("coordinator log has entry %d where %d should be: %w", e.Seq, want, store.ErrCorrupt)
		}
	}
	return entries, nil
}

// readEntry reads one entry, again when it was damaged on the way.
func readEntry(ctx context.Context, w world.World, b store.Bucket, key string) (e Entry, err error) {
	err = store.Reread(ctx, w, func() (uint32, error) {
		body, err := b.Get(ctx, key)
		if err == nil {
			e, err = DecodeEntry(body)
		}
		if seq, _ := ParseEntryKey(key); err == nil && seq != e.Seq {
			err = fmt.Errorf("it is entry %d: %w", e.Seq, store.ErrCorrupt)
		}
		if err != nil {
			err = fmt.Errorf("read %q: %w", key, err)
		}
		return store.CRC32C(body), err
	})
	if err != nil {
		return Entry{}, err
	}
	return e, nil
}

// apply adds the next entry to s. What a leader wrote after it had been replaced does not exist: its put would have lost.
func (s *State) apply(e Entry) {
	s.Seq = e.Seq
	switch e.Kind {
	case Takeover:
		s.Term, s.Owner = e.Term, e.Owner
	case Reserve:
		s.Reserved = max(s.Reserved, e.ID)
	case Complete:
		s.Newest = max(s.Newest, e.ID)
		s.Retained = append(s.Retained, Retained{ID: e.ID, Metadata: e.Metadata})
		s.Origin, s.Mode = Retained{}, ""
	case Savepoint:
		s.Savepoints = append(s.Savepoints, Retained{ID: e.ID, Metadata: e.Metadata})
	case Drop:
		s.Retained = without(s.Retained, e.ID)
	case Start:
		s.start(e)
	}
}

func without(list []Retained, id uint64) []Retained {
	return slices.DeleteFunc(list, func(r Retained) bool { return r.ID == id })
}

// start applies a Start.
func (s *State) start(e Entry) {
	from := Retained{ID: e.ID, Metadata: e.Metadata}
	s.Origin, s.Mode = Retained{}, ""
	if e.Mode == Claim {
		s.Savepoints, s.Released = without(s.Savepoints, e.ID), without(s.Released, e.ID)
		s.Retained = append(without(s.Retained, e.ID), from)
		s.Newest = max(s.Newest, e.ID)
		return
	}
	s.Released = append(s.Released, s.Retained...)
	s.Retained, s.Origin, s.Mode = nil, from, e.Mode
}

// TakeOver makes the owner the leader of the next term, in which it returns. Entries of the old leader that slip in before are
// read and respected. It returns ErrFenced when another one takes over at the same time and wins.
func (l *Log) TakeOver(ctx context.Context) (uint64, error) {
	if err := l.settle(ctx); err != nil {
		return 0, err
	}
	for {
		term := l.state.Term + 1
		lost, err := l.put(ctx, Entry{Kind: Takeover, Term: term})
		switch {
		case err != nil:
			return 0, err
		case lost == nil:
			l.term = term
			return term, nil
		case lost.Kind == Takeover:
			return 0, l.stepDown(*lost)
		}
	}
}

// NextID returns the lowest id that no checkpoint has used. Before ids beyond State.Reserved are used they must be reserved.
func (s State) NextID() uint64 { return s.Reserved + 1 }

// Reserve makes ids up to id durable as possibly used, rounded up to a thousand more; it does nothing when they are.
func (l *Log) Reserve(ctx context.Context, id uint64) error {
	if id <= l.state.Reserved {
		return nil
	}
	return l.append(ctx, Entry{Kind: Reserve, ID: id + reserveStep - 1})
}

// Complete makes checkpoint id, with the metadata object at key, completed: its decision point. On an error other than
// ErrFenced and the context's it is not completed and never will be; ErrFenced says the same of this leader's view.
func (l *Log) Complete(ctx context.Context, id uint64, key string) error {
	if id <= l.state.Newest {
		return fmt.Errorf("complete checkpoint %d after %d: ids must grow", id, l.state.Newest)
	}
	return l.append(ctx, Entry{Kind: Complete, ID: id, Metadata: key})
}

// Savepoint makes savepoint id, with the metadata object at key, completed, whatever checkpoints did meanwhile. What an error
// says is what Complete's does.
func (l *Log) Savepoint(ctx context.Context, id uint64, key string) error {
	return l.append(ctx, Entry{Kind: Savepoint, ID: id, Metadata: key})
}

// Start makes it durable that the job is started from id, a savepoint or the newest retained checkpoint or what it was last started
// from, with the metadata object at key, and whose that is. What an error says is what Complete's does.
func (l *Log) Start(ctx context.Context, id uint64, key string, mode Mode) error {
	return l.append(ctx, Entry{Kind: Start, ID: id, Metadata: key, Mode: mode})
}

// Drop makes checkpoint id not retained. Only after it may objects that nobody else names be deleted. An id that is
// not retained is no error.
func (l *Log) Drop(ctx context.Context, id uint64) error {
	if !slices.ContainsFunc(l.state.Retained, func(r Retained) bool { return r.ID == id }) {
		return nil
	}
	return l.append(ctx, Entry{Kind: Drop, ID: id})
}

// append writes an entry as leader.
func (l *Log) append(ctx context.Context, e Entry) error {
	if l.term == 0 {
		return errors.New("append to the coordinator log without having taken over")
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	e.Term = l.term
	lost, err := l.put(ctx, e)
	if err == nil && lost != nil {
		// After our takeover every number up to it is known, so whoever wrote here took over after us.
		err = l.stepDown(*lost)
	}
	return err
}

// stepDown remembers that the log has another leader.
func (l *Log) stepDown(by Entry) error {
	l.fenced = fmt.Errorf("entry %d is a %s of %s in term %d: %w", by.Seq, by.Kind, by.Owner, by.Term, ErrFenced)
	return l.fenced
}

// put tries to create the next entry. It returns what stands there instead, which it has applied, or nil for success. It
// goes on until the outcome is known: an entry that may yet appear must not be given up.
func (l *Log) put(ctx context.Context, e Entry) (lost *Entry, err error) {
	if l.fenced != nil {
		return nil, l.fenced
	}
	e.Seq, e.Owner = l.state.Seq+1, l.owner
	body := EncodeEntry(e)
	l.open = body
	there, err := l.create(ctx, e.Seq, body)
	if err != nil {
		if known(err) {
			l.open = nil
		}
		return nil, fmt.Errorf("append %s to the coordinator log: %w", e.Kind, err)
	}
	l.open = nil
	l.state.apply(there)
	if there == e {
		return nil, nil
	}
	return &there, nil
}

// known tells whether a failed put is certain to have had no effect.
func known(err error) bool {
	return !errors.Is(err, store.ErrAmbiguous) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		(errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrKey))
}

// settle finds out about an entry of ours whose outcome is open.
func (l *Log) settle(ctx context.Context) error {
	if l.open == nil {
		return l.fenced
	}
	there, err := l.create(ctx, l.state.Seq+1, l.open)
	if err != nil {
		return fmt.Errorf("settle an entry of the coordinator log: %w", err)
	}
	ours := bytes.Equal(EncodeEntry(there), l.open)
	l.open = nil
	l.state.apply(there)
	if !ours {
		return l.stepDown(there)
	}
	return nil
}

// create puts body as entry seq if that is absent and returns what stands there then. It tries again while the outcome is unknown.
func (l *Log) create(ctx context.Context, seq uint64, body []byte) (Entry, error) {
	key := EntryKey(seq)
	unknown := false
	for {
		err := l.bucket.Put(ctx, key, body, store.PutOptions{IfNotExist: true})
		if err == nil || errors.Is(err, store.ErrPrecondition) {
			var there Entry
			if there, err = l.readBack(ctx, key, body, err == nil); err == nil {
				return there, nil
			}
			unknown = true
		}
		unknown = unknown || errors.Is(err, store.ErrAmbiguous)
		if ctx.Err() != nil || !unknown {
			return Entry{}, err
		}
		if err := l.world.Sleep(ctx, l.pause); err != nil {
			return Entry{}, err
		}
	}
}

// readBack returns the entry that stands at key: body when the put went through, what is read there otherwise.
func (l *Log) readBack(ctx context.Context, key string, body []byte, ours bool) (Entry, error) {
	if ours {
		return DecodeEntry(body)
	}
	return readEntry(ctx, l.world, l.bucket, key)
}

// EncodeEntry writes an entry as one line of JSON followed by its CRC32C in eight hexadecimal digits: people read this log.
func EncodeEntry(e Entry) []byte {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // a struct of numbers and strings
	}
	line = append(line, '\n')
	return fmt.Appendf(line, "%08x\n", store.CRC32C(line))
}

// DecodeEntry is the reverse; damage is an error that wraps store.ErrCorrupt.
func DecodeEntry(b []byte) (Entry, error) {
	n := bytes.IndexByte(b, '\n') + 1
	if n == 0 || len(b) != n+9 {
		return Entry{}, fmt.Errorf("entry of the coordinator log ends at offset %d: %w", len(b), store.ErrCorrupt)
	}
	if string(b[n:]) != fmt.Sprintf("%08x\n", store.CRC32C(b[:n])) {
		return Entry{}, fmt.Errorf("entry of the coordinator log is damaged somewhere from offset 0 on, %d bytes: %w", len(b), store.ErrCorrupt)
	}
	var e Entry
	if err := json.Unmarshal(b[:n], &e); err != nil {
		return Entry{}, fmt.Errorf("entry of the coordinator log: %w: %w", store.ErrCorrupt, err)
	}
	return e, nil
}
