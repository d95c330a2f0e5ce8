package workloads

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// enrichInput is the generated input of the join: events and changes of rules, out of order by no more than the watermark
// allows for.
type enrichInput struct {
	disordered
	rules   uint64
	changes uint64 // draws in 2^32 that change a rule
}

// Words that make further draws of a record's.
const (
	changeSalt = 0xd1b54a32d192ed03
	ruleSalt   = 0x8cb92ba72f3d8dd7
)

// change tells whether a record changes a rule.
func (in *enrichInput) change(draw uint64) bool { return mix(draw^changeSalt)>>32 < in.changes }

// rule is the rule that a record changes, or that its event is judged by.
func (in *enrichInput) rule(draw uint64) uint32 {
	r, _ := bits.Mul64(mix(draw^ruleSalt), in.rules)
	return uint32(r)
}

// The kinds of records.
const (
	enrichEvent = 'e'
	enrichRule  = 'r'
)

// enrichRecord is the value of a record: its kind, its rule, a number (of a change: the rule's new factor) and, of an event, a
// payload, which is borrowed.
type enrichRecord struct {
	kind    byte
	rule    uint32
	number  int64
	payload []byte
}

const enrichHead = 13 // bytes before the payload

func readEnrichRecord(b []byte) (r enrichRecord, err error) {
	if len(b) < enrichHead {
		return r, fmt.Errorf("record of %d bytes: %w", len(b), backend.ErrEncoding)
	}
	return enrichRecord{b[0], binary.BigEndian.Uint32(b[1:]), int64(binary.BigEndian.Uint64(b[5:])), b[enrichHead:]}, nil
}

// enrichSource is the source of events and rules.
type enrichSource struct {
	in    *enrichInput
	paced bool
}

// Partitions implements graph.Source.
func (s *enrichSource) Partitions() int { return len(s.in.partitions) }

// Limit implements graph.Source: records are dealt out to the partitions in turn.
func (s *enrichSource) Limit(partition int, total int64) int64 {
	return limitOf(partition, len(s.in.partitions), total)
}

// Read implements graph.Source.
func (s *enrichSource) Read(partition int, index int64, r *graph.Record) (bool, error) {
	draw := s.in.draw(partition, index)
	key := s.in.key(partition, s.in.local(partition, index, draw))
	r.Key = binary.BigEndian.AppendUint64(r.Key[:0], key)
	r.Hash = keygroup.HashInt64(int64(key))
	kind, n := byte(enrichEvent), enrichHead+s.in.size
	if s.in.change(draw) {
		kind, n = enrichRule, enrichHead
	}
	if cap(r.Value) < n {
		r.Value = make([]byte, n)
	}
	r.Value = r.Value[:n]
	r.Value[0] = kind
	binary.BigEndian.PutUint32(r.Value[1:], s.in.rule(draw))
	binary.BigEndian.PutUint64(r.Value[5:], uint64(s.in.number(draw)))
	s.in.payload(r.Value[enrichHead:], draw)
	r.EventTime, r.Partition, r.Index, r.Tag = s.in.at(partition, index, draw), int32(partition), index, 0
	return true, nil
}

// Due implements graph.Source.
func (s *enrichSource) Due(partition int, index int64) time.Duration {
	if !s.paced {
		return anyTime
	}
	return time.Duration(s.in.eventTime(partition, index))
}

// Watermark implements graph.Source.
func (s *enrichSource) Watermark(partition int, index int64) int64 {
	return s.in.watermark(partition, index)
}
