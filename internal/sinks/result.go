package sinks

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sort"

	"statebench.dev/bench/internal/keygroup"
)

// Result is the committed output of a run. It is plain data, written to and read from JSON without loss.
type Result struct {
	Records int64 `json:"records"` // committed
	Strays  int64 `json:"strays"`  // of these, with a partition, index or key group that cannot exist
	// Committed and Aborted count transactions; Pending those that are neither, PendingRecords what is in them.
	Committed      int64 `json:"committed"`
	Aborted        int64 `json:"aborted"`
	Pending        int64 `json:"pending"`
	PendingRecords int64 `json:"pendingRecords"`
	// Groups holds, in order, every partition and key group with output.
	Groups []GroupResult `json:"groups"`
	// IDs tells whether identities were kept; Marks and Duplicates are empty without.
	IDs   bool    `json:"ids"`
	Marks []Marks `json:"marks,omitempty"`
	// DuplicateCount is how many records too many were committed, Duplicates the identities of the first 1,000 of them.
	DuplicateCount int64      `json:"duplicateCount"`
	Duplicates     []Identity `json:"duplicates,omitempty"`
}

// GroupResult is the multiset of output records of one source partition in one key group: their number and the digest
// (canon.Digest.String) of their encodings (canon.Output).
type GroupResult struct {
	Partition int         `json:"partition"`
	Group     keygroup.ID `json:"group"`
	Count     int64       `json:"count"`
	Digest    string      `json:"digest"`
}

// Marks are the indices of one partition and tag that were committed.
type Marks struct {
	Partition int
	Tag       uint8
	Count     int64
	set       bitmap
}

// Result is what has been committed so far. It shares nothing with the sink.
func (c *Collect) Result() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Result{Records: c.totals.records, Strays: c.totals.strays, Committed: c.totals.committed, Aborted: c.totals.aborted,
		Pending: int64(len(c.pending)), IDs: c.o.RecordIDs, DuplicateCount: c.twice.count,
		Duplicates: append([]Identity(nil), c.twice.list...)}
	for _, t := range c.pending { // order-free: a sum
		r.PendingRecords += t.records
	}
	for at, d := range c.sums { // order-free: sorted below
		r.Groups = append(r.Groups, GroupResult{Partition: at.partition(), Group: at.group(), Count: d.Count, Digest: d.String()})
	}
	sort.Slice(r.Groups, func(i, j int) bool {
		a, b := r.Groups[i], r.Groups[j]
		return a.Partition < b.Partition || a.Partition == b.Partition && a.Group < b.Group
	})
	for at, b := range c.marks { // order-free: sorted below
		set := bitmap{chunks: append([]chunk(nil), b.chunks...)}
		r.Marks = append(r.Marks, Marks{Partition: at.partition, Tag: at.tag, Count: set.count(), set: set})
	}
	sort.Slice(r.Marks, func(i, j int) bool {
		a, b := r.Marks[i], r.Marks[j]
		return a.Partition < b.Partition || a.Partition == b.Partition && a.Tag < b.Tag
	})
	return r
}

// Has tells whether the record was committed. It needs IDs.
func (r *Result) Has(id Identity) bool {
	m := r.marks(id.Partition, id.Tag)
	return m != nil && m.set.has(id.Index)
}

func (r *Result) marks(partition int, tag uint8) *Marks {
	i := sort.Search(len(r.Marks), func(i int) bool {
		m := &r.Marks[i]
		return m.Partition > partition || m.Partition == partition && m.Tag >= tag
	})
	if i < len(r.Marks) && r.Marks[i].Partition == partition && r.Marks[i].Tag == tag {
		return &r.Marks[i]
	}
	return nil
}

// Expectation knows which output records there should be; a workload's model is one.
type Expectation interface {
	OutputHas(partition int, index int64, tag uint8) bool
}

// Difference lists what is wrong with the identities of the output. Lost records were expected and not committed,
// unexpected ones the other way round; the lists hold the first few of each.
type Difference struct {
	LostCount, UnexpectedCount int64
	Lost, Unexpected           []Identity
}

// Compare finds lost and unexpected records with tags 0 to tags-1, where positions holds the next index of each source
// partition at the end. It lists at most limit of each. It needs IDs.
func (r *Result) Compare(e Expectation, positions []int64, tags, limit int) (d Difference) {
	for p, end := range positions {
		for tag := range tags {
			id := Identity{Partition: p, Tag: uint8(tag)}
			m := r.marks(p, uint8(tag))
			if m == nil {
				m = &Marks{}
			}
			for id.Index = 0; id.Index < end; id.Index++ {
				d.judge(id, e.OutputHas(p, id.Index, id.Tag), m.set.has(id.Index), limit)
			}
		}
	}
	for i := range r.Marks {
		m, end := &r.Marks[i], int64(0)
		if m.Partition < len(positions) && int(m.Tag) < tags {
			end = positions[m.Partition]
		}
		m.set.each(end, func(index int64) bool {
			d.judge(Identity{Partition: m.Partition, Index: index, Tag: m.Tag}, false, true, limit)
			return true
		})
	}
	return d
}

func (d *Difference) judge(id Identity, expected, present bool, limit int) {
	switch {
	case expected && !present:
		if d.LostCount++; len(d.Lost) < limit {
			d.Lost = append(d.Lost, id)
		}
	case present && !expected:
		if d.UnexpectedCount++; len(d.Unexpected) < limit {
			d.Unexpected = append(d.Unexpected, id)
		}
	}
}

// marksJSON is the written form of Marks. Bits is the base64 of a raw deflate stream of chunks: ids skipped, then bits, as
// little-endian 64-bit words.
type marksJSON struct {
	Partition int    `json:"partition"`
	Tag       uint8  `json:"tag"`
	Count     int64  `json:"count"`
	Bits      string `json:"bits"`
}

// MarshalJSON writes all sets with one compressor, of which a new one is a megabyte.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result // without methods
	out := struct {
		plain
		Marks []marksJSON `json:"marks,omitempty"`
	}{plain: plain(r)}
	var p packer
	for i := range r.Marks {
		m, err := p.pack(&r.Marks[i])
		if err != nil {
			return nil, err
		}
		out.Marks = append(out.Marks, m)
	}
	return json.Marshal(out)
}

// MarshalJSON writes the set in compressed form: a set without gaps takes a few hundred bytes for a million indices.
func (m Marks) MarshalJSON() ([]byte, error) {
	var p packer
	j, err := p.pack(&m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(j)
}

// packer compresses sets. The zero value is ready.
type packer struct {
	packed bytes.Buffer
	w      *flate.Writer // to packed
	raw    []byte
}

// pack gives the written form of m.
func (p *packer) pack(m *Marks) (j marksJSON, err error) {
	p.packed.Reset()
	if p.w == nil {
		if p.w, err = flate.NewWriter(&p.packed, flate.BestSpeed); err != nil {
			return j, err
		}
	} else {
		p.w.Reset(&p.packed)
	}
	previous := int64(-1)
	for i := range m.set.chunks {
		c := &m.set.chunks[i]
		p.raw = binary.LittleEndian.AppendUint64(p.raw[:0], uint64(c.id-previous-1)) // gaps, so that runs compress
		previous = c.id
		for _, word := range c.words {
			p.raw = binary.LittleEndian.AppendUint64(p.raw, word)
		}
		if _, err := p.w.Write(p.raw); err != nil {
			return j, err
		}
	}
	if err := p.w.Close(); err != nil {
		return j, err
	}
	return marksJSON{m.Partition, m.Tag, m.Count, base64.StdEncoding.EncodeToString(p.packed.Bytes())}, nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and checks that the number of indices is the one written beside it.
func (m *Marks) UnmarshalJSON(b []byte) error {
	var j marksJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	packed, err := base64.StdEncoding.DecodeString(j.Bits)
	if err != nil {
		return fmt.Errorf("marks of partition %d: %w", j.Partition, err)
	}
	*m = Marks{Partition: j.Partition, Tag: j.Tag, Count: j.Count}
	r, previous, n := flate.NewReader(bytes.NewReader(packed)), int64(-1), int64(0)
	var raw [8 + chunkBits/8]byte
	for {
		if _, err := io.ReadFull(r, raw[:]); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("marks of partition %d: %w", j.Partition, err)
		}
		c := chunk{id: previous + 1 + int64(binary.LittleEndian.Uint64(raw[:]))}
		if c.id <= previous || c.id > math.MaxInt64/chunkBits {
			return fmt.Errorf("marks of partition %d: chunks are not in order", j.Partition)
		}
		inside := 0
		for i := range c.words {
			c.words[i] = binary.LittleEndian.Uint64(raw[8*(i+1):])
			inside += bits.OnesCount64(c.words[i])
		}
		// Checked on the way, since what inflates may do so without end.
		if n += int64(inside); inside == 0 || n > m.Count {
			return fmt.Errorf("marks of partition %d: a chunk is empty, or there are more than %d indices", j.Partition, m.Count)
		}
		m.set.chunks, previous = append(m.set.chunks, c), c.id
	}
	if n != m.Count {
		return fmt.Errorf("marks of partition %d: %d indices, want %d", j.Partition, n, m.Count)
	}
	return nil
}
