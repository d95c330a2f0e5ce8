package workloads

import (
	"fmt"
	"strconv"
	"strings"

	"statebench.dev/bench/backend"
)

// Show writes the value of an element on one line, as the codec of its state decodes it: of a map entry or list element the
// value alone, without a time to live in front. ok is false where no workload has such a state of that operator, or the
// bytes are none of its values. Numbers of columns follow from the length.
func Show(operator string, spec backend.StateSpec, value []byte) (text string, ok bool) {
	for _, s := range shown() {
		if s.operator == operator && s.spec == spec {
			text, err := s.show(value)
			return text, err == nil
		}
	}
	return "", false
}

// shownState is a state whose values can be shown.
type shownState struct {
	operator string
	spec     backend.StateSpec
	show     func(value []byte) (string, error)
}

// shown lists the states by operator, name and type, which together tell the workloads apart.
func shown() []shownState {
	return []shownState{
		{"count", backend.Spec("value", backend.Value), showHeld},
		{"count", backend.Spec("map", backend.Map), showUnsigned},
		{"count", backend.Spec("list", backend.List), showUnsigned},
		{"count", backend.Spec("window", backend.Value), showWindow},
		{"count", backend.Spec("fired", backend.Reducing), showInt},
		{"count", versioned("value", backend.Value, "held"), showHeldBehind},
		{"count", versioned("map", backend.Map, "element"), showVarint},
		{"count", versioned("list", backend.List, "element"), showVarint},
		{"count", versioned("fired", backend.Reducing, "count"), showSignedVarint},
		{"total", backend.Spec("total", backend.Aggregating), showTotal},
		{"stats", backend.Spec("stats", backend.Aggregating), showStats},
		{"stats", backend.Spec("labels", backend.Map), showInt},
		{"stats", backend.Spec("window", backend.Value), showTraceWindow},
		{"total", backend.Spec("total", backend.Reducing), showTraceSum},
		{"enrich", backend.Spec("pending", backend.List), showPending},
		{"enrich", backend.Spec("totals", backend.Value), showEnrichTotals},
		{"enrich", backend.Spec("held", backend.List), showHeldBack},
		{"window", backend.Spec("pane", backend.Value), showGathering},
		{"window", backend.Spec("window", backend.Value), showGathering},
		{"window", backend.Spec("late", backend.Reducing), showInt},
		{"window", backend.Spec("session", backend.Value), showInt},
	}
}

// versioned is a state that the counter stores in its second schema.
func versioned(name string, t backend.Type, serializer string) backend.StateSpec {
	spec := backend.Spec(name, t)
	spec.Schema = backend.Schema{Serializer: serializer, Version: 2}
	return spec
}

func showVarint(b []byte) (string, error) {
	v, err := varint{}.Decode(b)
	return strconv.FormatUint(v, 10), err
}

func showSignedVarint(b []byte) (string, error) {
	v, err := signedVarint{}.Decode(b)
	return strconv.FormatInt(v, 10), err
}

func showHeldBehind(b []byte) (string, error) {
	v, err := heldBehind{}.Decode(b)
	return fmt.Sprintf("count=%d payload=%s", v.count, showPayload(v.payload)), err
}

func showUnsigned(b []byte) (string, error) {
	v, err := backend.Uint64{}.Decode(b)
	return strconv.FormatUint(v, 10), err
}

func showInt(b []byte) (string, error) {
	v, err := backend.Int64{}.Decode(b)
	return strconv.FormatInt(v, 10), err
}

func showHeld(b []byte) (string, error) {
	v, err := heldCodec{}.Decode(b)
	return fmt.Sprintf("count=%d payload=%s", v.count, showPayload(v.payload)), err
}

func showWindow(b []byte) (string, error) {
	v, err := windowCodec{}.Decode(b)
	return fmt.Sprintf("records=%d list=%d partition=%d index=%d", v.records, v.list, v.partition, v.index), err
}

func showTotal(b []byte) (string, error) {
	v, err := totalCodec{}.Decode(b)
	return fmt.Sprintf("records=%d windows=%d sum=%d", v.records, v.windows, v.sum), err
}

func showStats(b []byte) (string, error) {
	columns, err := columnsIn(len(b)-8, 32)
	if err != nil {
		return "", err
	}
	v, err := statsCodec(columns).Decode(b)
	return fmt.Sprintf("count=%d sum=%d min=%d max=%d last=%d", v.count, v.sum[:columns], v.min[:columns], v.max[:columns], v.last[:columns]), err
}

func showTraceSum(b []byte) (string, error) {
	columns, err := columnsIn(len(b)-16, 8)
	if err != nil {
		return "", err
	}
	v, err := traceSumCodec(columns).Decode(b)
	return fmt.Sprintf("records=%d windows=%d sums=%d", v.records, v.windows, v.sums[:columns]), err
}

// columnsIn is how many columns of some bytes each there are in n bytes.
func columnsIn(n, each int) (int, error) {
	if n < 0 || n%each != 0 || n/each > maxColumns {
		return 0, fmt.Errorf("%d bytes of columns: %w", n, backend.ErrEncoding)
	}
	return n / each, nil
}

// showTraceWindow leaves sums and second key together: only the trace knows where the one ends.
func showTraceWindow(b []byte) (string, error) {
	v, rest, err := readNumbers(b, 3)
	return fmt.Sprintf("records=%d partition=%d index=%d sums+second=%x", v[0], v[1], v[2], rest), err
}

func showGathering(b []byte) (string, error) {
	v, err := gatheringCodec{}.Decode(b)
	text := fmt.Sprintf("count=%d sum=%d min=%d max=%d last=%d session=%d partition=%d index=%d at=%d",
		v.count, v.sum, v.min, v.max, v.last, v.session, v.partition, v.index, v.at)
	if len(v.payload) > 0 {
		text += " payload=" + showPayload(v.payload)
	}
	return text, err
}

// shownPayload is how many bytes of a payload are shown.
const shownPayload = 16

func showPayload(b []byte) string {
	text := fmt.Sprintf("%x", b[:min(len(b), shownPayload)])
	if len(b) > shownPayload {
		text += "…"
	}
	return strings.TrimSpace(fmt.Sprintf("%dB %s", len(b), text))
}
