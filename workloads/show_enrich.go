package workloads

import (
	"encoding/binary"
	"fmt"

	"statebench.dev/bench/backend"
)

func showEnrichTotals(b []byte) (string, error) {
	v, err := enrichTotalsCodec{}.Decode(b)
	return fmt.Sprintf("count=%d sum=%d", v.count, v.sum), err
}

// showPending shows an event that waits.
func showPending(b []byte) (string, error) {
	v, rest, err := readNumbers(b, 2)
	if err != nil {
		return "", err
	}
	in, err := readEnrichRecord(rest)
	return fmt.Sprintf("partition=%d index=%d rule=%d number=%d payload=%s", v[0], v[1], in.rule, in.number, showPayload(in.payload)), err
}

// showHeldBack shows the first of the results that are held together.
func showHeldBack(b []byte) (string, error) {
	const head = 4 + 12*8 // before the payload
	count := 0
	for rest := b; len(rest) > 0; count++ {
		if len(rest) < head || uint64(len(rest)) < 4+uint64(binary.BigEndian.Uint32(rest)) {
			return "", fmt.Errorf("results end with %x: %w", rest[:min(len(rest), head)], backend.ErrEncoding)
		}
		rest = rest[4+binary.BigEndian.Uint32(rest):]
	}
	if count == 0 {
		return "", fmt.Errorf("no results: %w", backend.ErrEncoding)
	}
	word := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[4+8*i:])) }
	return fmt.Sprintf("results=%d partition=%d index=%d at=%d rule=%d result=%d", count, word(0), word(1), word(3), word(4), word(9)), nil
}
