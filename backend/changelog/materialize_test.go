package changelog

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestMaterializationsAreSpread(t *testing.T) {
	var at []time.Duration
	for i := range 64 {
		d := offset(fmt.Sprint("count-", i), time.Minute)
		if d != offset(fmt.Sprint("count-", i), time.Minute) || d < 0 || d >= time.Minute {
			t.Fatalf("offset of subtask %d is %v", i, d)
		}
		at = append(at, d)
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		if gap := at[i] - at[i-1]; gap > 10*time.Second {
			t.Errorf("nobody materializes between %v and %v", at[i-1], at[i])
		}
	}
}

func TestReplayRate(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		took  time.Duration
		want  float64
	}{
		{0, 0, unknownRate},
		{tellingBytes - 1, time.Second, unknownRate},
		{tellingBytes, 0, unknownRate},
		{1 << 20, 1 << 20, 1},
		{1 << 20, 1 << 22, 4},
	} {
		if got := replayRate(c.bytes, c.took); got != c.want {
			t.Errorf("%d bytes in %v: %v, want %v", c.bytes, c.took, got, c.want)
		}
	}
}
