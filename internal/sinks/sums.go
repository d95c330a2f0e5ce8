package sinks

import (
	"sort"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/keygroup"
)

// place is a partition and a key group in one number that sorts by both.
type place uint32

func placeOf(partition int32, group keygroup.ID) place { return place(partition)<<16 | place(group) }

func (p place) partition() int     { return int(p >> 16) }
func (p place) group() keygroup.ID { return keygroup.ID(p) }

// sum is the digest of the records of one place.
type sum struct {
	at     place
	digest canon.Digest
}

// sums is a hash table of digests by place: a dense array would have partitions × max parallelism entries for each of
// possibly a thousand writers, each of which sees few. The zero value is empty.
type sums struct {
	slots []int32 // entry + 1; 0: free
	used  []sum
	shift uint8
}

// at finds or makes the digest of a place.
func (s *sums) at(p place) *canon.Digest {
	if 2*len(s.used) >= len(s.slots) {
		s.grow()
	}
	for i := s.home(p); ; i = (i + 1) & uint32(len(s.slots)-1) {
		n := s.slots[i]
		if n == 0 {
			s.used = append(s.used, sum{at: p})
			s.slots[i] = int32(len(s.used))
			return &s.used[len(s.used)-1].digest
		}
		if e := &s.used[n-1]; e.at == p {
			return &e.digest
		}
	}
}

// home is where the search for a place begins.
func (s *sums) home(p place) uint32 { return uint32(p) * 0x9e3779b1 >> s.shift }

func (s *sums) grow() {
	n := max(16, 2*len(s.slots))
	s.slots, s.shift = make([]int32, n), 32
	for 1<<(32-s.shift) < n {
		s.shift--
	}
	for k := range s.used {
		i := s.home(s.used[k].at)
		for s.slots[i] != 0 {
			i = (i + 1) & uint32(n-1)
		}
		s.slots[i] = int32(k + 1)
	}
}

// take returns the entries in order of place and empties the table, whose memory stays for the next transaction.
func (s *sums) take() []sum {
	taken := append([]sum(nil), s.used...)
	sort.Slice(taken, func(i, j int) bool { return taken[i].at < taken[j].at })
	clear(s.slots)
	s.used = s.used[:0]
	return taken
}
