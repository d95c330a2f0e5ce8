package engine

import (
	"testing"
	"time"
)

func TestSleeps(*testing.T) {
	time.Sleep(time.Millisecond) // want: sleep
}
