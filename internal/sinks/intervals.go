package sinks

import "sort"

// intervals is a set of checkpoint ids as disjoint closed intervals in order. A writer's checkpoints nearly follow one
// another, so a day of them takes a few intervals.
type intervals struct{ list [][2]uint64 }

// place is where the first interval that ends at or after id stands.
func (s *intervals) place(id uint64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i][1] >= id })
}

// has tells whether id is in the set.
func (s *intervals) has(id uint64) bool {
	i := s.place(id)
	return i < len(s.list) && s.list[i][0] <= id
}

// add puts id, which must not be in it, into the set.
func (s *intervals) add(id uint64) {
	i := s.place(id)
	before := i > 0 && s.list[i-1][1]+1 == id
	after := i < len(s.list) && id+1 == s.list[i][0]
	switch {
	case before && after:
		s.list[i-1][1] = s.list[i][1]
		s.list = append(s.list[:i], s.list[i+1:]...)
	case before:
		s.list[i-1][1] = id
	case after:
		s.list[i][0] = id
	default:
		s.list = append(s.list, [2]uint64{})
		copy(s.list[i+1:], s.list[i:])
		s.list[i] = [2]uint64{id, id}
	}
}
