package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// Place is a position in a file: line and column count from 1, columns in characters. The zero value is no position.
type Place struct{ Line, Column int }

// Problem is one thing that is wrong with a scenario, or, as a warning, one thing its writer should know.
type Problem struct {
	// File is the path as it was given to Load, or the flag that is wrong ("--store").
	File string
	// Place is where in the file; the zero value for a flag.
	Place Place
	// Message says what is wrong and, where it is known, what would be right; lower case, one line.
	Message string
	// Source is the line of the file, for the snippet; empty for a flag.
	Source string
}

// Error is the first line of String: the place and the message.
func (p Problem) Error() string {
	if p.Place.Line == 0 {
		return p.File + "  " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d  %s", p.File, p.Place.Line, p.Place.Column, p.Message)
}

// String is the problem with the source line around it and a caret below the place.
func (p Problem) String() string {
	if p.Place.Line == 0 || p.Source == "" {
		return p.Error()
	}
	return fmt.Sprintf("%s\n%5d | %s\n      | %s^", p.Error(), p.Place.Line, p.Source, indentTo(p.Source, p.Place.Column))
}

// indentTo is as wide as what stands before the column in the line; tabs stay tabs.
func indentTo(line string, column int) string {
	var b strings.Builder
	for i, r := range []rune(line) {
		if i >= column-1 {
			break
		}
		if r == '\t' {
			b.WriteRune(r)
		} else {
			b.WriteByte(' ')
		}
	}
	for range column - 1 - len([]rune(line)) {
		b.WriteByte(' ')
	}
	return b.String()
}

// Format writes problems for the terminal, one after the other, and their number in the last line.
func Format(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String())
		b.WriteByte('\n')
	}
	if len(problems) == 1 {
		b.WriteString("1 problem, nothing was run\n")
	} else {
		fmt.Fprintf(&b, "%d problems, nothing was run\n", len(problems))
	}
	return b.String()
}

// sortProblems puts flags first and the rest in file order, and removes repetitions, which come from parts of the file
// that are read twice.
func sortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Place.Line != b.Place.Line {
			return a.Place.Line - b.Place.Line
		}
		return a.Place.Column - b.Place.Column
	})
	seen := map[Problem]bool{}
	return slices.DeleteFunc(problems, func(p Problem) bool {
		twice := seen[p]
		seen[p] = true
		return twice
	})
}
