package heap

import (
	"bytes"
	"slices"
	"sort"
)

// leafSize is how many elements a leaf holds at most.
const leafSize = 64

// leaf is a run of elements in order of keys. The first n refs are used.
type leaf struct {
	version uint32 // when it was made: not newer than a live snapshot means shared with it
	n       uint32
	refs    [leafSize]uint32
}

// leafChunk is how leaves are allocated.
type leafChunk [64]leaf

func (m *memory) leaf(id uint32) *leaf { return &m.leaves[id>>6][id&63] }

// newLeaf returns an empty leaf of the current version.
func (a *arena) newLeaf() (uint32, *leaf) {
	a.reap()
	if len(a.freeLeaf) == 0 {
		base := uint32(len(a.leaves)) << 6
		a.leaves = append(a.leaves, new(leafChunk))
		for i := range uint32(len(leafChunk{})) {
			a.freeLeaf = append(a.freeLeaf, base+63-i)
		}
	}
	id := a.freeLeaf[len(a.freeLeaf)-1]
	a.freeLeaf = a.freeLeaf[:len(a.freeLeaf)-1]
	l := a.leaf(id)
	l.version, l.n = a.versions.current, 0
	return id, l
}

// removeLeaf gives up a leaf that the loop cannot reach any more.
func (a *arena) removeLeaf(id uint32) {
	if a.leaf(id).version > a.versions.newest() {
		a.freeLeaf = append(a.freeLeaf, id)
		return
	}
	a.deadLeaf.bury(id, a.versions.current)
}

// dirEntry is a leaf and its first element.
type dirEntry struct{ first, leaf uint32 }

// orderedTable is the elements of one ordered state in one key group: leaves, and a sorted directory of them. The zero value
// is empty.
//
// Note: a directory of one level instead of a tree: it moves 8 bytes a leaf where a leaf comes or goes, which is once in
// 32 to 64 insertions, so even 10 M elements in one key group cost well below a microsecond an insertion.
type orderedTable struct {
	dir     []dirEntry
	count   int
	version uint32 // when dir was made: not newer than a live snapshot means shared with it
}

// find returns the place of the first element that is not below key: leaf i of the directory, element j, which is the
// leaf's length when all of leaf i is below key. An empty table gives 0, 0.
func (t *orderedTable) find(m *memory, key []byte) (i, j int, exact bool) {
	if len(t.dir) == 0 {
		return 0, 0, false
	}
	lo, hi := 0, len(t.dir)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bytes.Compare(m.key(t.dir[mid].first), key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	i = max(0, lo-1)
	l := m.leaf(t.dir[i].leaf)
	lo, hi = 0, int(l.n)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch c := bytes.Compare(m.key(l.refs[mid]), key); {
		case c == 0:
			return i, mid, true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return i, lo, false
}

func (t *orderedTable) get(m *memory, key []byte) ([]byte, bool) {
	i, j, exact := t.find(m, key)
	if !exact {
		return nil, false
	}
	_, value := m.keyValue(m.leaf(t.dir[i].leaf).refs[j])
	return value, true
}

func (t *orderedTable) put(a *arena, key, value []byte) error {
	i, j, exact := t.find(&a.memory, key)
	if exact {
		ref := a.leaf(t.dir[i].leaf).refs[j]
		fresh, err := a.update(ref, value)
		if err == nil && fresh != ref {
			t.ownLeaf(a, i).refs[j] = fresh
			t.first(a, i, j)
		}
		return err
	}
	ref, err := a.put(key, value)
	if err != nil {
		return err
	}
	t.count++
	if len(t.dir) == 0 {
		t.insertLeaf(a, 0, ref)
		return nil
	}
	l := t.ownLeaf(a, i)
	if l.n == leafSize {
		if j == leafSize && i == len(t.dir)-1 {
			t.insertLeaf(a, i+1, ref) // in rising order leaves stay full
			return nil
		}
		if l = t.split(a, i); j > int(l.n) {
			i, j = i+1, j-int(l.n)
			l = a.leaf(t.dir[i].leaf)
		}
	}
	copy(l.refs[j+1:l.n+1], l.refs[j:l.n])
	l.refs[j] = ref
	l.n++
	t.first(a, i, j)
	return nil
}

// first brings the directory up to date after element j of leaf i has changed.
func (t *orderedTable) first(a *arena, i, j int) {
	if j == 0 {
		t.own(a)
		t.dir[i].first = a.leaf(t.dir[i].leaf).refs[0]
	}
}

// own copies the directory if a snapshot shares it.
func (t *orderedTable) own(a *arena) {
	if t.version <= a.versions.newest() {
		t.dir, t.version = slices.Clone(t.dir), a.versions.current
	}
}

// ownLeaf returns leaf i for writing; it copies it if a snapshot shares it.
func (t *orderedTable) ownLeaf(a *arena, i int) *leaf {
	old := t.dir[i].leaf
	l := a.leaf(old)
	if l.version > a.versions.newest() {
		return l
	}
	id, fresh := a.newLeaf()
	fresh.n = l.n
	copy(fresh.refs[:l.n], l.refs[:l.n])
	t.own(a)
	t.dir[i].leaf = id
	a.removeLeaf(old)
	return fresh
}

func (t *orderedTable) insertLeaf(a *arena, i int, refs ...uint32) *leaf {
	id, l := a.newLeaf()
	l.n = uint32(copy(l.refs[:], refs))
	t.own(a)
	t.dir = slices.Insert(t.dir, i, dirEntry{refs[0], id})
	return l
}

// split moves the upper half of leaf i, which is owned, to a new leaf after it and returns leaf i.
func (t *orderedTable) split(a *arena, i int) *leaf {
	l := a.leaf(t.dir[i].leaf)
	t.insertLeaf(a, i+1, l.refs[leafSize/2:]...)
	l.n = leafSize / 2
	return l
}

func (t *orderedTable) delete(a *arena, key []byte) {
	i, j, exact := t.find(&a.memory, key)
	if !exact {
		return
	}
	l := t.ownLeaf(a, i)
	a.remove(l.refs[j])
	copy(l.refs[j:], l.refs[j+1:l.n])
	l.n--
	t.count--
	switch {
	case l.n == 0:
		t.dropLeaves(a, i, i+1)
	default:
		t.first(a, i, j)
		t.merge(a, i)
	}
}

// dropLeaves takes leaves [i, j) out of the directory.
func (t *orderedTable) dropLeaves(a *arena, i, j int) {
	if i == j {
		return
	}
	t.own(a)
	for _, d := range t.dir[i:j] {
		a.removeLeaf(d.leaf)
	}
	t.dir = slices.Delete(t.dir, i, j)
}

// merge joins a leaf that has become small with a neighbour if both fit one with room to spare.
func (t *orderedTable) merge(a *arena, i int) {
	if n := a.leaf(t.dir[i].leaf).n; n > leafSize/4 {
		return
	}
	for _, left := range [2]int{i, i - 1} {
		if left < 0 || left+1 >= len(t.dir) {
			continue
		}
		right := a.leaf(t.dir[left+1].leaf)
		if a.leaf(t.dir[left].leaf).n+right.n > leafSize*3/4 {
			continue
		}
		l := t.ownLeaf(a, left)
		copy(l.refs[l.n:], right.refs[:right.n])
		l.n += right.n
		t.dropLeaves(a, left+1, left+2)
		return
	}
}

// deletePrefix removes the elements whose keys begin with prefix.
func (t *orderedTable) deletePrefix(a *arena, prefix []byte) {
	i, j, _ := t.find(&a.memory, prefix)
	start := i
	empty := i // leaves [empty, i) have lost all elements
	for ; i < len(t.dir); i, j = i+1, 0 {
		l := a.leaf(t.dir[i].leaf)
		n := int(l.n)
		e := j + sort.Search(n-j, func(k int) bool { return !bytes.HasPrefix(a.key(l.refs[j+k]), prefix) })
		if j == e && j < n {
			break
		}
		if j == e { // j == n, which only the first leaf can be: all of it is below prefix
			empty = i + 1
			continue
		}
		for _, ref := range l.refs[j:e] {
			a.remove(ref)
		}
		t.count -= e - j
		if e-j == n {
			continue
		}
		l = t.ownLeaf(a, i)
		copy(l.refs[j:], l.refs[e:n])
		l.n -= uint32(e - j)
		t.first(a, i, j)
		if e < n {
			break
		}
		empty = i + 1 // the leaf has kept what is below prefix
	}
	t.dropLeaves(a, empty, i)
	if len(t.dir) > 0 {
		t.merge(a, min(start, len(t.dir)-1))
	}
}

// scanLeaves calls f for the elements of dir in order until it returns false.
func scanLeaves(m *memory, dir []dirEntry, f func(key, value []byte) bool) bool {
	for _, d := range dir {
		l := m.leaf(d.leaf)
		for _, ref := range l.refs[:l.n] {
			if key, value := m.keyValue(ref); !f(key, value) {
				return false
			}
		}
	}
	return true
}

// scan calls f for the elements whose keys begin with prefix in order until it returns false.
func (t *orderedTable) scan(m *memory, prefix []byte, f func(key, value []byte) bool) {
	i, j, _ := t.find(m, prefix)
	for ; i < len(t.dir); i, j = i+1, 0 {
		l := m.leaf(t.dir[i].leaf)
		for _, ref := range l.refs[j:l.n] {
			key, value := m.keyValue(ref)
			if !bytes.HasPrefix(key, prefix) || !f(key, value) {
				return
			}
		}
	}
}
