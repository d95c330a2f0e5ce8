package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"

	"statebench.dev/bench/internal/history"
)

var errStopped = errors.New("stopped")

var seen = map[string]int{} // want: global

var names = map[string]int{"a": 1} // read-only: a table

func random() int {
	own := rand.New(rand.NewPCG(1, 2))
	return own.IntN(3) + rand.IntN(3) // want: world
}

func files() ([]byte, error) {
	_, err := os.ReadFile("state") // want: world
	if errors.Is(err, os.ErrNotExist) {
		err = errStopped
	}
	return fmt.Appendf(nil, "%p", &err), err // want: world
}

func orders(h *history.Recorder) (sum int) {
	for k, v := range seen { // want: map-range
		sum += len(k) * v
	}
	for _, v := range seen { // order-free: a sum
		sum += v
	}
	for range seen {
		sum++
	}
	for k := range maps.Keys(seen) { // want: map-range
		sum += len(k)
	}
	return sum + len(slices.Sorted(maps.Keys(seen)))
}

func change() {
	names["b"] = 2     // want: global
	delete(names, "a") // want: global
	names = nil        // want: global
	defer func() {
		_ = recover() // want: recover
	}()
	runtime.Goexit() // want: recover, world
}
