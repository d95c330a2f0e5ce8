package engine

import (
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/world"
)

// Network is the data plane: the channels between the subtasks of each attempt. Both ends of a channel ask for it by name, so
// that neither has to know the other. It is no part of a worker, as a wire is no part of what it connects. Safe for concurrent use.
type Network struct {
	world    world.World
	job      *graph.Job
	credits  int
	progress *Progress
	mu       struct {
		*world.Mutex
		attempts map[uint64]*wiring
		released uint64 // the newest attempt that was released
	}
}

// newNetwork makes the data plane of a job, and the progress of its sources.
func newNetwork(cfg *Config) *Network {
	n := &Network{world: cfg.World, job: cfg.Job, credits: max(2, cfg.Settings.Credits)}
	for _, node := range cfg.Job.Nodes {
		if node.Source != nil {
			n.progress = NewProgress(node.Source.Partitions())
		}
	}
	n.mu.Mutex = world.NewMutex(cfg.World)
	n.mu.attempts = map[uint64]*wiring{}
	return n
}

// Progress is how far the sources of the job are.
func (n *Network) Progress() *Progress { return n.progress }

// Release forgets the channels of an attempt, and of all before it, with all that lies in them. Processes of those attempts that still run
// keep what they have, to no effect.
func (n *Network) Release(attempt uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.released = max(n.mu.released, attempt)
	for a := range n.mu.attempts { // order-free: entries are only removed
		if a <= n.mu.released {
			delete(n.mu.attempts, a)
		}
	}
}

// attempt returns the wiring of an attempt; one that was released gets one of its own, which leads nowhere.
func (n *Network) attempt(attempt uint64, parallelism int) *wiring {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.mu.attempts[attempt]
	if w == nil {
		w = newWiring(n, parallelism)
		if attempt > n.mu.released {
			n.mu.attempts[attempt] = w
		}
	}
	return w
}

// wiring is all channels of one attempt, made when first asked for.
type wiring struct {
	n           *Network
	parallelism int
	mu          *world.Mutex
	gates       map[place][]*channel // by consumer: its channels in order of (edge, producer)
	inboxes     map[place]*world.Queue[int32]
}

// place is one subtask: an operator and an index.
type place struct {
	operator string
	index    int
}

func newWiring(n *Network, parallelism int) *wiring {
	return &wiring{n: n, parallelism: parallelism, mu: world.NewMutex(n.world), gates: map[place][]*channel{},
		inboxes: map[place]*world.Queue[int32]{}}
}

// inputs returns the channels that lead to a subtask, and the queue of those of them that hold something.
func (w *wiring) inputs(operator string, index int) ([]*channel, *world.Queue[int32]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.consumer(place{operator, index})
}

func (w *wiring) consumer(at place) ([]*channel, *world.Queue[int32]) {
	if chans := w.gates[at]; chans != nil {
		return chans, w.inboxes[at]
	}
	ready := world.NewQueue[int32](w.n.world, world.Unbounded)
	var chans []*channel
	for _, e := range w.n.job.Edges {
		if e.To != at.operator {
			continue
		}
		for range w.width(e) {
			chans = append(chans, &channel{index: int32(len(chans)), second: e.Input == graph.Second, broadcast: e.Exchange == graph.Broadcast,
				ready: ready, credits: w.n.credits, mu: world.NewMutex(w.n.world)})
		}
	}
	w.gates[at], w.inboxes[at] = chans, ready
	return chans, ready
}

// width is the number of channels of an edge that end at one consumer.
func (w *wiring) width(e graph.Edge) int {
	if e.Exchange == graph.Forward {
		return 1
	}
	return w.parallelism
}

// outputs returns the channels of edge number edge that lead away from subtask index of its producer, in order of consumers.
func (w *wiring) outputs(edge, index int) []*channel {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.n.job.Edges[edge]
	first := 0 // of the edge's channels at each consumer
	for _, other := range w.n.job.Edges[:edge] {
		if other.To == e.To {
			first += w.width(other)
		}
	}
	if e.Exchange == graph.Forward {
		chans, _ := w.consumer(place{e.To, index})
		return chans[first : first+1]
	}
	out := make([]*channel, w.parallelism)
	for i := range out {
		chans, _ := w.consumer(place{e.To, i})
		out[i] = chans[first+index]
	}
	return out
}
