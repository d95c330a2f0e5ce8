package blocks

import "statebench.dev/bench/internal/world"

// Spare keeps the memory in which objects are encoded from one Write to the next: fresh memory for every object is most of
// what encoding costs. It may be used concurrently; a nil one keeps nothing.
type Spare struct {
	mu     *world.Mutex
	most   int // of either kind
	bodies [][]byte
	blocks [][]byte
}

// NewSpare returns one that keeps most objects' memory, and most blocks'.
func NewSpare(w world.World, most int) *Spare { return &Spare{mu: world.NewMutex(w), most: most} }

// take returns an empty body for an object, nil if there is none.
func (s *Spare) take() []byte {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return pop(&s.bodies)
}

// block returns an empty buffer for a block, nil if there is none.
func (s *Spare) block() []byte {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return pop(&s.blocks)
}

// keep takes back a block and bodies that nobody uses any more.
func (s *Spare) keep(block []byte, bodies ...[]byte) {
	if s == nil {
		return
	}
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
