package workloads

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// disordered is a generator whose records do not come in order of event time: the time of each lies back by a drawn
// span, all spans up to disorder being equally likely.
type disordered struct {
	*generator
	disorder, lag int64 // ns
}

// at is the event time of a record.
func (d *disordered) at(partition int, index int64, draw uint64) int64 {
	back, _ := bits.Mul64(mix(draw+golden), uint64(d.disorder)+1)
	return max(0, d.eventTime(partition, index)-int64(back))
}

// watermark is the event time that a partition has come to before a record: what lies before it from there on is out of
// time. A partition without a record holds nothing back.
func (d *disordered) watermark(partition int, index int64) int64 {
	w := d.generator.watermark(partition, index)
	if w == math.MaxInt64 {
		return w
	}
	return max(0, w-d.lag)
}

// number is the number that a record carries, 40 bits with a sign.
func (d *disordered) number(draw uint64) int64 { return int64(mix(draw^d.salt)) >> 24 }

// windowSource is the source of the windows.
type windowSource struct {
	in    *disordered
	paced bool
}

// windowRecord is the value of a source record: the watermark of its partition before it, its number and its payload,
// which is borrowed.
type windowRecord struct {
	watermark, number int64
	payload           []byte
}

func readWindowRecord(b []byte) (r windowRecord, err error) {
	if len(b) < 16 {
		return r, fmt.Errorf("record of %d bytes: %w", len(b), backend.ErrEncoding)
	}
	return windowRecord{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])), b[16:]}, nil
}

// Partitions implements graph.Source.
func (s *windowSource) Partitions() int { return len(s.in.partitions) }

// Limit implements graph.Source: records are dealt out to the partitions in turn.
func (s *windowSource) Limit(partition int, total int64) int64 {
	return limitOf(partition, len(s.in.partitions), total)
}

// Read implements graph.Source.
func (s *windowSource) Read(partition int, index int64, r *graph.Record) (bool, error) {
	draw := s.in.draw(partition, index)
	key := s.in.key(partition, s.in.local(partition, index, draw))
	r.Key = binary.BigEndian.AppendUint64(r.Key[:0], key)
	r.Hash = keygroup.HashInt64(int64(key))
	n := 16 + s.in.size
	if cap(r.Value) < n {
		r.Value = make([]byte, n)
	}
	r.Value = r.Value[:n]
	binary.BigEndian.PutUint64(r.Value, uint64(s.in.watermark(partition, index)))
	binary.BigEndian.PutUint64(r.Value[8:], uint64(s.in.number(draw)))
	s.in.payload(r.Value[16:], draw)
	r.EventTime, r.Partition, r.Index, r.Tag = s.in.at(partition, index, draw), int32(partition), index, 0
	return true, nil
}

// Due implements graph.Source.
func (s *windowSource) Due(partition int, index int64) time.Duration {
	if !s.paced {
		return anyTime
	}
	return time.Duration(s.in.eventTime(partition, index))
}

// Watermark implements graph.Source.
func (s *windowSource) Watermark(partition int, index int64) int64 {
	return s.in.watermark(partition, index)
}
