package heap

import "statebench.dev/bench/internal/world"

// spare keeps the memory in which snapshots are encoded from one snapshot of a worker to the next: fresh memory for every
// object is most of what encoding costs.
type spare struct {
	mu     *world.Mutex
	most   int // of either kind
	bodies [][]byte
	blocks [][]byte
}

// take returns an empty body for an object, nil if there is none.
func (s *spare) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pop(&s.bodies)
}

// block returns an empty buffer for a block, nil if there is none.
func (s *spare) block() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return pop(&s.blocks)
}

// keep takes back a block and bodies that nobody uses any more.
func (s *spare) keep(block []byte, bodies ...[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if block != nil && len(s.blocks) < s.most {
		s.blocks = append(s.blocks, block[:0])
	}
	for _, b := range bodies {
		if b != nil && len(s.bodies) < s.most {
			s.bodies = append(s.bodies, b[:0])
		}
	}
}

func pop(list *[][]byte) []byte {
	n := len(*list) - 1
	if n < 0 {
		return nil
	}
	b := (*list)[n]
	(*list)[n] = nil
	*list = (*list)[:n]
	return b
}
