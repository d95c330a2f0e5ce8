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
