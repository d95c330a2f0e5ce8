package workloads

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"statebench.dev/bench/backend"
)

// ruleBook is the broadcast state of the join: the changes of each rule that an event may still need, in order.
type ruleBook [][]ruleChange

// ruleChange is one change: the rule has the factor from event time at on. Of several at one time that of the last partition and
// index counts.
type ruleChange struct {
	at, partition, index, factor int64
}

func (c ruleChange) compare(o ruleChange) int {
	return cmp.Or(cmp.Compare(c.at, o.at), cmp.Compare(c.partition, o.partition), cmp.Compare(c.index, o.index))
}

// add notes a change; at watermark, those before it that no event can need any more go.
func (b ruleBook) add(rule uint32, c ruleChange, watermark int64) error {
	if int(rule) >= len(b) {
		return fmt.Errorf("rule %d of %d", rule, len(b))
	}
	at, there := slices.BinarySearchFunc(b[rule], c, ruleChange.compare)
	if there {
		return fmt.Errorf("the change of rule %d by record %d of partition %d came twice", rule, c.index, c.partition)
	}
	b[rule] = slices.Insert(b[rule], at, c)
	b.forget(rule, watermark)
	return nil
}

// find is the change in force at a time; before the first there is none, which has times and places below all others.
func (b ruleBook) find(rule uint32, at int64) ruleChange {
	if n := after(b[rule], at); n > 0 {
		return b[rule][n-1]
	}
	return ruleChange{at: -1, partition: -1, index: -1}
}

// after is how many of the changes are not after a time.
func after(changes []ruleChange, at int64) int {
	n, _ := slices.BinarySearchFunc(changes, at, func(c ruleChange, at int64) int {
		if c.at <= at {
			return -1
		}
		return 1
	})
	return n
}

// forget drops the changes that were replaced by the watermark: events before it have left.
func (b ruleBook) forget(rule uint32, watermark int64) {
	if n := after(b[rule], watermark); n > 1 {
		b[rule] = slices.Delete(b[rule], 0, n-1)
	}
}

// encode gives the same bytes for the same changes.
func (b ruleBook) encode() []byte {
	var out []byte
	for rule, changes := range b {
		for _, c := range changes {
			out = binary.BigEndian.AppendUint32(out, uint32(rule))
			for _, v := range [...]int64{c.at, c.partition, c.index, c.factor} {
				out = backend.AppendInt64(out, v)
			}
		}
	}
	return out
}

const ruleChangeBytes = 4 + 4*8

// decode adds the changes of an encoded book.
func (b ruleBook) decode(src []byte) error {
	for ; len(src) > 0; src = src[ruleChangeBytes:] {
		if len(src) < ruleChangeBytes || int(binary.BigEndian.Uint32(src)) >= len(b) {
			return fmt.Errorf("changes of rules end with %x: %w", src, backend.ErrEncoding)
		}
		var c ruleChange
		for i, v := range [...]*int64{&c.at, &c.partition, &c.index, &c.factor} {
			*v = int64(binary.BigEndian.Uint64(src[4+8*i:]))
		}
		rule := binary.BigEndian.Uint32(src)
		b[rule] = append(b[rule], c)
	}
	return nil
}
