package workloads

import (
	"testing"

	"statebench.dev/bench/backend"
)

// TestShowDecodesAsTheCodecs: values of every workload's states are shown, other bytes are not.
func TestShowDecodesAsTheCodecs(t *testing.T) {
	for _, c := range []struct {
		operator string
		spec     backend.StateSpec
		value    []byte
		want     string
	}{
		{"count", backend.Spec("value", backend.Value), heldCodec{}.Append(nil, held{3, []byte("abc")}), "count=3 payload=3B 616263"},
		{"count", backend.Spec("window", backend.Value), windowCodec{}.Append(nil, window{1, 2, 3, 4}), "records=1 list=2 partition=3 index=4"},
		{"count", backend.Spec("fired", backend.Reducing), backend.Int64{}.Append(nil, -5), "-5"},
		{"count", versioned("value", backend.Value, "held"), heldBehind{}.Append(nil, held{3, []byte("abc")}), "count=3 payload=3B 616263"},
		{"count", versioned("map", backend.Map, "element"), varint{}.Append(nil, 300), "300"},
		{"count", versioned("fired", backend.Reducing, "count"), signedVarint{}.Append(nil, -5), "-5"},
		{"total", backend.Spec("total", backend.Aggregating), totalCodec{}.Append(nil, total{1, 2, 3}), "records=1 windows=2 sum=3"},
		{"total", backend.Spec("total", backend.Reducing), traceSumCodec(2).Append(nil, traceSum{1, 2, numbers{7, 8}}), "records=1 windows=2 sums=[7 8]"},
		{"stats", backend.Spec("stats", backend.Aggregating), statsCodec(1).Append(nil, stats{1, numbers{2}, numbers{3}, numbers{4}, numbers{5}}),
			"count=1 sum=[2] min=[3] max=[4] last=[5]"},
		{"enrich", backend.Spec("totals", backend.Value), enrichTotalsCodec{}.Append(nil, enrichTotals{3, -4}), "count=3 sum=-4"},
		{"enrich", backend.Spec("pending", backend.List), []byte("\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x07e\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x09abc"),
			"partition=2 index=7 rule=5 number=9 payload=3B 616263"},
		{"enrich", backend.Spec("held", backend.List), words([]byte{0, 0, 0, 96}, []int64{2, 7, 0, 100, 5, 90, 1, 6, 9, 27, 1, 27}),
			"results=1 partition=2 index=7 at=100 rule=5 result=27"},
		{"window", backend.Spec("pane", backend.Value), gatheringCodec{}.Append(nil, gathering{count: 9, index: 4}),
			"count=9 sum=0 min=0 max=0 last=0 session=0 partition=0 index=4 at=0"},
	} {
		if got, ok := Show(c.operator, c.spec, c.value); !ok || got != c.want {
			t.Errorf("%s/%s: %q, %t; want %q", c.operator, c.spec.Name, got, ok, c.want)
		}
	}
	for _, short := range [][]byte{nil, {0x81}, make([]byte, 7)} {
		for _, s := range shown() {
			if text, ok := Show(s.operator, s.spec, short); ok {
				t.Errorf("%s/%s shows %x as %q", s.operator, s.spec.Name, short, text)
			}
		}
	}
	if _, ok := Show("count", backend.Spec("other", backend.Value), nil); ok {
		t.Error("a state that there is not is shown")
	}
}
