// Package registry holds named constructors, and the value types that YAML files and JSON plans write the same way.
package registry

import (
	"fmt"
	"sort"
)

// Entry is one named thing of a table.
type Entry[T any] struct {
	Name  string // kebab-case
	About string // one line for `bench list`
	New   T
}

// Table is a fixed set of entries. It is filled once and safe for concurrent reading.
type Table[T any] struct {
	what    string
	entries []Entry[T]
	index   map[string]int
}

// NewTable makes a table of the given kind of thing ("fault", "workload"). It panics on a name used twice: that is a
// mistake in the program's own list.
func NewTable[T any](what string, entries ...Entry[T]) Table[T] {
	t := Table[T]{what: what, entries: append([]Entry[T](nil), entries...), index: map[string]int{}}
	sort.SliceStable(t.entries, func(i, j int) bool { return t.entries[i].Name < t.entries[j].Name })
	for i, e := range t.entries {
		if _, twice := t.index[e.Name]; twice {
			panic(fmt.Sprintf("registry: %s %q is registered twice", what, e.Name))
		}
		t.index[e.Name] = i
	}
	return t
}

// What is the kind of thing in the table.
func (t Table[T]) What() string { return t.what }

// Entries lists the table in order of name.
func (t Table[T]) Entries() []Entry[T] { return append([]Entry[T](nil), t.entries...) }

// Names lists the names in order.
func (t Table[T]) Names() []string {
	names := make([]string, len(t.entries))
	for i, e := range t.entries {
		names[i] = e.Name
	}
	return names
}

// Find returns the entry of that name. The error of an unknown one is an *UnknownError that knows the nearest name.
func (t Table[T]) Find(name string) (Entry[T], error) {
	if i, ok := t.index[name]; ok {
		return t.entries[i], nil
	}
	return Entry[T]{}, &UnknownError{What: t.what, Name: name, Nearest: Nearest(name, t.Names())}
}

// UnknownError says that a table has no entry of a name.
type UnknownError struct {
	What, Name string
	Nearest    string // the most similar name; empty when none is similar
}

// Error is one line, with a suggestion where there is one.
func (e *UnknownError) Error() string {
	s := fmt.Sprintf("%s %q does not exist", e.What, e.Name)
	if e.Nearest != "" {
		s += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return s
}

// Nearest returns the name most similar to word by edit distance, or "" when none is close.
func Nearest(word string, names []string) string {
	best, bestDistance := "", len(word)/2+1
	for _, n := range names {
		if d := distance(word, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
