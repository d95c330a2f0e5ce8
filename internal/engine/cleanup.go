package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/failpoint"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// Deletes have a bounded pool of their own, so that thousands of them keep neither the loop nor a checkpoint waiting.
const (
	deleters    = 4 // batches deleted at a time
	deleteBatch = 200
	deleteTries = 5 // of a key, before it is left to the clean-up at the end
)

// clearPatience bounds the removal of leftovers when the job is stopped.
const clearPatience = time.Minute

// cleaning is the leader's book on what is being removed from the store.
type cleaning struct {
	begun map[uint64]bool // attempts of which the leftovers were listed, or are being listed
	room  *world.Semaphore
	open  int // listings and removals that have not ended
	// removing are the keys that were given to a removal: until they were tried and every listing that may show them has ended, no
	// other removal takes them. tried are those of which only the latter is left.
	removing map[string]struct{}
	tried    []string
	listings int
	final    bool
	pace     deletePace
	// backlog is the number of objects that are to be deleted and that were not tried yet.
	backlog int
	waits   []*request // for the end of a clean-up; answered by it or when the leader ends
}

func newCleaning(w world.World, perSecond int) cleaning {
	return cleaning{begun: map[uint64]bool{}, removing: map[string]struct{}{}, room: world.NewSemaphore(w, deleters), pace: newDeletePace(w, perSecond)}
}

// removal is a set of keys to delete.
type removal struct {
	keys       []string
	checkpoint uint64 // whose end they were kept for; 0: leftovers of an attempt
	// after, where set, is called in the loop when all were tried, with the number of those that are still there.
	after  func(ctx context.Context, failed int)
	left   int // batches
	failed int
}

// batchDeleted says that a batch of a removal was tried.
type batchDeleted struct {
	removal *removal
	keys    []string
	failed  int
}

// claim takes the keys for a removal and returns those that no other one has.
func (b *cleaning) claim(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool {
		_, taken := b.removing[key]
		b.removing[key] = struct{}{}
		return taken
	})
}

// forget lets keys be removed again that were tried, once no listing is under way that began before.
func (b *cleaning) forget(tried []string) {
	if b.tried = append(b.tried, tried...); b.listings > 0 {
		return
	}
	for _, key := range b.tried {
		delete(b.removing, key)
	}
	b.tried = nil
}

// remove deletes keys beside the loop, each once: what another removal has under way is left to that.
func (c *coordinator) remove(ctx context.Context, r removal) {
	r.keys = c.cleaning.claim(r.keys)
	if len(r.keys) == 0 {
		if r.after != nil {
			r.after(ctx, 0)
		}
		return
	}
	size := c.cleaning.pace.batch()
	r.left = (len(r.keys) + size - 1) / size
	c.cleaning.open++
	c.cleaning.backlog += len(r.keys)
	for batch := range slices.Chunk(r.keys, size) {
		turn := c.cleaning.pace.turn(len(batch))
		c.children.Go(ctx, "delete-objects", func(ctx context.Context) error {
			if turn.wait(ctx) != nil {
				return nil // stopped
			}
			if err := c.cleaning.room.Acquire(ctx, 1); err != nil {
				return nil // stopped
			}
			defer c.cleaning.room.Release(1)
			failed := c.deleteKeys(ctx, batch, r.checkpoint)
			if ctx.Err() == nil {
				c.end.Post(ctx, 0, batchDeleted{removal: &r, keys: batch, failed: failed})
			}
			return nil
		})
	}
}

// deleteKeys deletes a batch, those that fail several times, and returns how many are left.
func (c *coordinator) deleteKeys(ctx context.Context, keys []string, id uint64) int {
	info := store.Info{Cause: "clean-up"}
	if id > 0 {
		info = store.Info{Cause: "drop", Checkpoint: id}
		if c.pass(ctx, failpoint.CheckpointDeleteBegin) != nil {
			return len(keys)
		}
	}
	ctx = store.WithInfo(ctx, info)
	left := keys
	for try := 1; ; try++ {
		var again []string
		for _, d := range c.bucket.Delete(ctx, left) {
			if d.Err != nil {
				again = append(again, d.Key)
			}
		}
		left = again
		if len(left) == 0 || try == deleteTries || c.world.Sleep(ctx, time.Duration(try)*200*time.Millisecond) != nil {
			break
		}
	}
	if id > 0 {
		_ = c.pass(ctx, failpoint.CheckpointDeleteEnd) // they are gone
	}
	return len(left)
}

func (c *coordinator) batchDeleted(ctx context.Context, b batchDeleted) {
	r := b.removal
	r.failed += b.failed
	c.cleaning.backlog -= len(b.keys)
	c.cleaning.forget(b.keys)
	if r.left--; r.left > 0 {
		return
	}
	c.cleaning.open--
	if r.failed > 0 {
		c.note(ctx, fmt.Sprintf("%d of %d objects could not be deleted; the clean-up at the end tries again", r.failed, len(r.keys)))
	}
	if r.after != nil {
		r.after(ctx, r.failed)
	}
}

// listing is a search for leftovers.
type listing struct {
	prefixes []string
	below    uint64 // attempts below this number only
	term     uint64 // metadata of terms up to this one only: a leader that was replaced without knowing it must not harm the next one
	// savepoints below this id only, of which those that neither completed nor are pending are nobody's; 0: none
	savepoints uint64
	final      bool // nothing of the job runs: only what a retained checkpoint names stays
	request    *request
}

// listed is its answer.
type listed struct {
	listing
	objects []store.Attributes
	aborted int // multipart uploads that were ended
	err     error
}

// cleanAttempt removes what a fenced attempt left behind and no registered checkpoint names.
func (c *coordinator) cleanAttempt(ctx context.Context, id uint64) {
	if c.zombies() {
		return
	}
	c.cleaning.begun[id] = true
	l := listing{prefixes: checkpoint.AttemptPrefixes(id), below: id + 1, savepoints: c.checkpoints.next}
	if c.savepoints.failed {
		c.savepoints.failed = false
		l.prefixes = append(l.prefixes, checkpoint.SavepointPrefix)
	}
	c.list(ctx, l)
}

// cleanUp does the same for all attempts that are over, for writes of which the outcome was unknown then.
func (c *coordinator) cleanUp(ctx context.Context, r *request) {
	if c.zombies() {
		r.answer(0, nil)
		return
	}
	l := listing{prefixes: []string{checkpoint.LogPrefix, checkpoint.BasePrefix, checkpoint.MetadataPrefix}, request: r, below: c.attempts + 1}
	l.prefixes, l.savepoints = append(l.prefixes, c.savepointPrefixes()...), c.checkpoints.next
	if a := c.attempt; a != nil && !a.fenced {
		l.below = a.id
	}
	c.cleaning.waits = append(c.cleaning.waits, r)
	c.list(ctx, l)
}

// list lists beside the loop and ends multipart uploads that nobody will complete.
func (c *coordinator) list(ctx context.Context, l listing) {
	c.cleaning.open++
	c.cleaning.listings++
	l.term = c.term
	c.children.Go(ctx, "list-leftovers", func(ctx context.Context) error {
		ctx = store.WithInfo(ctx, store.Info{Cause: "clean-up"})
		found := listed{listing: l}
		for _, prefix := range l.prefixes {
			if found.err = c.listPrefix(ctx, prefix, &found); found.err != nil {
				break
			}
		}
		if ctx.Err() == nil {
			c.end.Post(ctx, 0, found)
		}
		return nil
	})
}

func (c *coordinator) listPrefix(ctx context.Context, prefix string, found *listed) error {
	for a, err := range c.bucket.List(ctx, prefix, "") {
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		if found.covers(a.Key) {
			found.objects = append(found.objects, a)
		}
	}
	uploads, err := c.bucket.Uploads(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list uploads under %s: %w", prefix, err)
	}
	for _, u := range uploads {
		if !found.covers(u.Key) {
			continue
		}
		if err := c.bucket.AbortUpload(ctx, u); err != nil {
			return fmt.Errorf("abort the upload of %s: %w", u.Key, err)
		}
		found.aborted++
	}
	return nil
}

// covers tells whether an object is to be looked at: not those of an attempt that still writes, nor those of a later leader.
func (l *listing) covers(key string) bool {
	if strings.HasPrefix(key, checkpoint.MetadataPrefix) {
		_, term, ok := checkpoint.ParseMetadataKey(key)
		return ok && term <= l.term
	}
	if id, ok := checkpoint.SavepointOf(key); ok {
		return id < l.savepoints
	}
	attempt, ok := attemptOf(key)
	return ok && attempt < l.below
}

// attemptOf is the attempt that wrote an object of a log or a base.
func attemptOf(key string) (uint64, bool) {
	rest, isLog := strings.CutPrefix(key, checkpoint.LogPrefix)
	if !isLog {
		var isBase bool
		if rest, isBase = strings.CutPrefix(key, checkpoint.BasePrefix); !isBase {
			return 0, false
		}
	}
	number, _, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, err == nil
}

// listed deletes what nobody needs of what was found.
func (c *coordinator) listed(ctx context.Context, l listed) {
	c.cleaning.open--
	c.cleaning.listings--
	defer c.cleaning.forget(nil)
	if l.err != nil {
		c.note(ctx, "clean-up: "+l.err.Error())
		c.cleaned(l.request, l.err)
		return
	}
	needed := c.needed(l.final)
	removed := map[uint64]*history.Event{}
	var order []uint64
	r := removal{}
	for _, o := range l.objects {
		if _, going := c.cleaning.removing[o.Key]; going || needed(o.Key) {
			continue
		}
		r.keys = append(r.keys, o.Key)
		id, _ := attemptOf(o.Key)
		e := removed[id]
		if e == nil {
			e = &history.Event{Kind: history.CleanUp, Actor: c.name, Attempt: id}
			removed[id] = e
			order = append(order, id)
		}
		e.Count++
		e.Bytes += o.Size
	}
	slices.Sort(order)
	r.after = func(ctx context.Context, failed int) {
		for _, id := range order {
			c.record(ctx, *removed[id])
		}
		var err error
		if failed > 0 {
			err = fmt.Errorf("%d of %d leftovers could not be deleted", failed, len(r.keys))
		}
		c.cleaned(l.request, err)
	}
	c.remove(ctx, r)
}

func (c *coordinator) cleaned(r *request, err error) {
	if r != nil {
		c.cleaning.waits = slices.DeleteFunc(c.cleaning.waits, func(w *request) bool { return w == r })
		r.answer(0, err)
	}
}

// needed returns the test for an object that must stay. While the job runs that is everything registered; at the end it is what
// a retained checkpoint names. What is the user's stays whatever happens.
func (c *coordinator) needed(final bool) func(key string) bool {
	k := &c.checkpoints
	stays := map[string]bool{}
	for _, list := range [][]*checkpoint.Completed{k.completed.List(), k.drops} {
		for _, d := range list {
			stays[d.Object.Key] = true
			if final {
				for _, o := range d.Metadata.Objects() {
					stays[o.Key] = true
				}
			}
		}
	}
	for _, p := range k.pending {
		stays[checkpoint.MetadataKey(p.id, c.term)] = true
	}
	return func(key string) bool {
		if id, ok := checkpoint.SavepointOf(key); ok && k.find(id) != nil {
			return true
		}
		return c.foreign(key) || stays[key] || !final && k.registry.Known(key)
	}
}

// clear is the last phase: what the log still has to say, then the deletes, then a last look for leftovers of all attempts.
func (c *coordinator) clear(ctx context.Context) {
	switch {
	case c.world.Now() >= c.until:
		c.note(ctx, "leftovers could not be removed in time")
	case c.ledger.open > 0 || len(c.checkpoints.drops) > 0 || c.cleaning.open > 0:
		return
	case !c.cleaning.final && c.clearable(ctx):
		c.cleaning.final = true
		if n := c.newest(); n != nil {
			if err := c.restoreSink(ctx, c.attempts+1, n.Metadata); err != nil {
				c.note(ctx, err.Error())
			}
		}
		l := listing{prefixes: []string{checkpoint.LogPrefix, checkpoint.BasePrefix, checkpoint.MetadataPrefix}, below: c.attempts + 1, final: true}
		l.prefixes, l.savepoints = append(l.prefixes, c.savepointPrefixes()...), c.checkpoints.next
		c.list(ctx, l)
		return
	}
	c.over = true
	if c.failure == "" {
		c.phase = phaseFinished
	}
}

// clearable tells whether it is known what is needed: not while a retained checkpoint could never be read.
func (c *coordinator) clearable(ctx context.Context) bool {
	if c.zombies() {
		return false
	}
	for _, d := range c.checkpoints.completed.List() {
		if d.Metadata.Parallelism == 0 {
			c.note(ctx, fmt.Sprintf("leftovers stay, since it is not known what checkpoint %d names", d.Metadata.ID))
			return false
		}
	}
	return true
}

// graceful begins the end of the job.
func (c *coordinator) graceful(ctx context.Context) {
	now := c.world.Now()
	c.checkpoints.grid = world.Never
	switch c.phase {
	case phaseRunning, phaseDeploying:
		c.cause = "stop"
		c.cancel(ctx, phaseStopping, ReasonStopped, func() {})
	case phaseFailing:
		c.phase = phaseStopping
	case phaseSuspending:
		if c.phase = phaseClearing; c.attempt != nil && !c.attempt.fenced {
			c.phase = phaseStopping
		}
	case phaseStopping, phaseClearing, phaseFinished:
		return
	default:
		c.phase = phaseClearing
	}
	if c.phase == phaseClearing {
		c.until = now + clearPatience
	}
	c.refuseAll(errStopped)
}
