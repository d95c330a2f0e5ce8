package validate

import (
	"cmp"
	"slices"
	"strings"
)

// operatorOf is the operator of a subtask's name, <operator>-<index>.
func operatorOf(subtask string) string {
	if i := strings.LastIndexByte(subtask, '-'); i > 0 {
		return subtask[:i]
	}
	return subtask
}

// sortedKeys returns the keys of m in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m { // order-free: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
