package world

import (
	"context"
	"math"
	"sync"
)

// Unbounded is the capacity of a queue whose Put never blocks. The memory of a queue grows with its content only.
const Unbounded = math.MaxInt

// Queue is a bounded, closable first-in-first-out queue, the only channel between processes. It should carry batches,
// not records. All methods are safe for concurrent use. Waiting takers are served in the order of their arrival,
// except that whoever comes by when an item is there may take it first.
type Queue[T any] struct {
	w        *common
	capacity int
	putting  string // what a writer waits for
	taking   string

	mu struct {
		sync.Mutex
		buf    []T // ring, its length a power of two
		first  int
		n      int
		closed bool
	}
	readers, writers side // guarded by mu
}

// NewQueue returns an open queue of the given capacity, which must be positive.
func NewQueue[T any](w World, capacity int) *Queue[T] {
	if capacity <= 0 {
		panic("world: the capacity of a queue must be positive")
	}
	return &Queue[T]{w: w.shared(), capacity: capacity, putting: "room in a queue", taking: "an item of a queue"}
}

// Named gives the queue a name for deadlock reports and returns it. It is called before the queue is used.
func (q *Queue[T]) Named(name string) *Queue[T] {
	q.putting, q.taking = "room in queue "+name, "an item of queue "+name
	return q
}

// Put appends v, waiting while the queue is full. It returns ErrClosed when the queue is or becomes closed and the
// cause when ctx is done; v is then not in the queue.
func (q *Queue[T]) Put(ctx context.Context, v T) error {
	c := q.w.enter(ctx)
	if err := c.err(); err != nil {
		return err
	}
	q.mu.Lock()
	for {
		if q.mu.closed {
			q.mu.Unlock()
			return ErrClosed
		}
		if q.mu.n < q.capacity {
			q.push(v)
			q.mu.Unlock()
			return nil
		}
		used, err := c.block(&q.mu.Mutex, &q.writers.takers, q.putting)
		if err != nil {
			if used && q.mu.n < q.capacity {
				q.writers.signal(q.w)
			}
			q.mu.Unlock()
			throw(err)
			return err
		}
	}
}

// TryPut appends v unless the queue is full or closed, and tells whether it did. Called by a dead process of the
// simulated world, for example in a deferred function, it does nothing and returns false.
func (q *Queue[T]) TryPut(v T) bool {
	if !q.w.k.quick() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed || q.mu.n >= q.capacity {
		return false
	}
	q.push(v)
	return true
}

// Take removes the first item, waiting while the queue is empty. It returns ErrClosed when the queue is closed and
// drained and the cause when ctx is done, even if items are left.
func (q *Queue[T]) Take(ctx context.Context) (T, error) {
	var none T
	c := q.w.enter(ctx)
	if err := c.err(); err != nil {
		return none, err
	}
	q.mu.Lock()
	for {
		if q.mu.n > 0 {
			v := q.pop()
			q.mu.Unlock()
			return v, nil
		}
		if q.mu.closed {
			q.mu.Unlock()
			return none, ErrClosed
		}
		used, err := c.block(&q.mu.Mutex, &q.readers.takers, q.taking)
		if err != nil {
			if used && q.mu.n > 0 {
				q.readers.signal(q.w)
			}
			q.mu.Unlock()
			throw(err)
			return none, err
		}
	}
}

// TryTake removes the first item if there is one. A dead process of the simulated world gets none.
func (q *Queue[T]) TryTake() (T, bool) {
	var none T
	if !q.w.k.quick() {
		return none, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.n == 0 {
		return none, false
	}
	return q.pop(), true
}

// Len is the number of items in the queue.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.n
}

// Cap is the capacity.
func (q *Queue[T]) Cap() int { return q.capacity }

// Full tells whether Put would wait.
func (q *Queue[T]) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.n >= q.capacity
}

// Close makes Put fail at once and Take once the queue is drained. A second Close does nothing, nor does a Close by a
// dead process of the simulated world: a crash leaves no orderly end of a stream.
func (q *Queue[T]) Close() {
	if !q.w.k.quick() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return
	}
	q.mu.closed = true
	q.readers.broadcast(q.w)
	q.writers.broadcast(q.w)
}

// Closed tells whether Close was called; items may be left.
func (q *Queue[T]) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.closed
}

// Readable is ready when an item can be taken or the queue is closed. It costs nothing to call.
func (q *Queue[T]) Readable() Waitable { return (*readSide[T])(q) }

// Writable is ready when an item can be put or the queue is closed. It costs nothing to call.
func (q *Queue[T]) Writable() Waitable { return (*writeSide[T])(q) }

func (q *Queue[T]) push(v T) {
	if q.mu.n == len(q.mu.buf) {
		q.grow()
	}
	q.mu.buf[(q.mu.first+q.mu.n)&(len(q.mu.buf)-1)] = v
	q.mu.n++
	q.readers.signal(q.w)
}

func (q *Queue[T]) pop() T {
	var none T
	v := q.mu.buf[q.mu.first]
	q.mu.buf[q.mu.first] = none
	q.mu.first = (q.mu.first + 1) & (len(q.mu.buf) - 1)
	q.mu.n--
	q.writers.signal(q.w)
	return v
}

func (q *Queue[T]) grow() {
	buf := make([]T, max(4, 2*len(q.mu.buf)))
	n := copy(buf, q.mu.buf[q.mu.first:])
	copy(buf[n:], q.mu.buf[:q.mu.first])
	q.mu.buf, q.mu.first = buf, 0
}

type (
	readSide[T any]  Queue[T]
	writeSide[T any] Queue[T]
)

func (r *readSide[T]) holds() bool { return r.mu.n > 0 || r.mu.closed }

func (r *readSide[T]) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds()
}

func (r *readSide[T]) arm(n *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds() {
		return true
	}
	r.readers.pollers.add(n)
	return false
}

func (r *readSide[T]) disarm(n *waiter) {
	r.mu.Lock()
	r.readers.pollers.remove(n)
	r.mu.Unlock()
}

func (r *writeSide[T]) holds() bool { return r.mu.n < r.capacity || r.mu.closed }

func (r *writeSide[T]) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds()
}

func (r *writeSide[T]) arm(n *waiter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds() {
		return true
	}
	r.writers.pollers.add(n)
	return false
}

func (r *writeSide[T]) disarm(n *waiter) {
	r.mu.Lock()
	r.writers.pollers.remove(n)
	r.mu.Unlock()
}
