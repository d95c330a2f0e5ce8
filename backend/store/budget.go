package store

import (
	"context"
	"time"

	"statebench.dev/bench/internal/world"
)

// budgetBurst is how many retries a budget that was not used for a while has at once.
const budgetBurst = 10

// RetryBudget bounds how many retries several calls make together, so that a store that is overloaded is not asked several
// times for each thing: each retry takes one from it, each call that succeeds adds a share of one, and time adds some, so that
// it never stays empty. A retry that finds it empty is not given up but waits until it is due, behind those that wait already. All
// methods may be called concurrently.
type RetryBudget struct {
	w           world.World
	share, rate float64
	mu          struct {
		*world.Mutex
		left float64 // below 0: what is due to retries that wait
		at   time.Duration
		n    BudgetCounts
	}
}

// BudgetCounts count what became of a budget since it was made.
type BudgetCounts struct {
	// Retries were asked for, Deferred of them waited longer than their own backoff for their turn.
	Retries, Deferred int64
	// Successes are the calls that added to it.
	Successes int64
}

// NewRetryBudget returns a full one, of 10 retries. share, 0 to 1, is what a success adds, perSecond > 0 what a second does.
func NewRetryBudget(w world.World, share, perSecond float64) *RetryBudget {
	b := &RetryBudget{w: w, share: share, rate: perSecond}
	b.mu.Mutex = world.NewMutex(w)
	b.mu.left, b.mu.at = budgetBurst, w.Now()
	return b
}

// fill adds what time has, with mu held.
func (b *RetryBudget) fill() {
	now := b.w.Now()
	b.mu.left = min(budgetBurst, b.mu.left+b.rate*(now-b.mu.at).Seconds())
	b.mu.at = now
}

// Spare takes one if more than half is left, and tells whether it did: for requests that can be done without.
func (b *RetryBudget) Spare() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	if b.mu.left <= budgetBurst/2 {
		return false
	}
	b.mu.left--
	return true
}

// Take takes one retry and returns how long it has to wait at least; own is what it waits anyway.
func (b *RetryBudget) Take(own time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill()
	b.mu.left--
	b.mu.n.Retries++
	due := time.Duration(-b.mu.left / b.rate * float64(time.Second))
	if due <= own {
		return own
	}
	b.mu.n.Deferred++
	return due
}

// Earn adds what a success does.
func (b *RetryBudget) Earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.left = min(budgetBurst, b.mu.left+b.share)
	b.mu.n.Successes++
}

// Counts returns the counters.
func (b *RetryBudget) Counts() BudgetCounts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.n
}

type budgetKey struct{}

// WithBudget returns a context under which a Retrying bucket takes its retries from b.
func WithBudget(ctx context.Context, b *RetryBudget) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

// budgetOf is the budget of ctx; nil: none.
func budgetOf(ctx context.Context) *RetryBudget {
	b, _ := ctx.Value(budgetKey{}).(*RetryBudget)
	return b
}
