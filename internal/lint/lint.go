// Package lint holds the rules of this project that no general linter knows, as tests.
//
// A rule is a name, a reason and a function over the parsed and type-checked tree; its reason is printed with each
// problem, so that who breaks it learns why it is there. The tables (levels, import rules, what comes from the world
// and who is excused) are Go literals in imports.go, modules.go and world.go: a new package is a row there. Every rule
// proves itself on testdata/bad, a small module in which each violation is marked on its line with `want: <rule>`.
//
// A rule that needs judgement takes it in the code it is about: `// order-free: why` beside a range over a map,
// `// read-only: why` at a lookup table. Only the standard library is used; what other modules export is read from the
// export data that the go command builds anyway.
package lint

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
)

// Problem is one place where a rule is broken.
type Problem struct {
	// File is the path from the root of the tree, with slashes.
	File string
	// Line is counted from 1.
	Line int
	// Rule is the name of the rule.
	Rule string
	// Text says what is wrong there and what to do instead.
	Text string
}

// String returns the problem as compilers print theirs.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", p.File, p.Line, p.Text, p.Rule)
}

// Rule is one rule over a whole tree.
type Rule struct {
	// Name is what problems and testdata call it.
	Name string
	// Reason says why the rule exists.
	Reason string

	check func(*pass)
}

// Rules returns all rules, in the order in which they are checked.
func Rules() []Rule {
	return []Rule{
		{"package-comment", "a reader starts at the file named like the package", packageComments},
		{"exported-doc", "a contract that is not written down is not one", exportedDocs},
		{"size", "a file holds one idea, a function fits a screen", sizes},
		{"level", "imports go downward, so each part can be lifted out and tested alone", levelsHold},
		{"import", "rules 1 to 5 of docs/architecture.md: each names its own reason", importsHold},
		{"module", "a dependency has owners, else it spreads", modulesHold},
		{"world", "rule 7: what the simulated world cannot see makes its runs a lie", worldOnly},
		{"map-range", "rule 7: the order of a Go map differs from run to run", mapRanges},
		{"recover", "a recover in a process of a world swallows its kill", recovers},
		{"sleep", "a test that sleeps is slow or flaky, mostly both", sleeps},
		{"global", "rule 9: many simulated worlds run in one process", globals},
		{"command-line", "rule 6: only cmd/bench touches flags, exit codes and standard output", commandLine},
		{"testing", "rule 8: a library that takes *testing.T can only run as a test", testings},
		{"marker", "what is not done belongs in the tracker, not in the code", markers},
		{"word", "committed files name no machine and no registry", words},
		{"link", "a reader who is sent somewhere must find something there", links},
		{"shown", "a test that is said to show something must be there to show it", shown},
		{"readme", "the first thing a reader tries must work", readme},
	}
}

// Check applies the rules to the tree and returns what they find, ordered by file and line.
func Check(t *Tree, rules []Rule) []Problem {
	var found []Problem
	for _, r := range rules {
		r.check(&pass{tree: t, rule: r.Name, found: &found})
	}
	slices.SortStableFunc(found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(found)
}

// pass is one rule at work on one tree.
type pass struct {
	tree  *Tree
	rule  string
	found *[]Problem
}

// at reports a problem at a position of the tree's file set.
func (p *pass) at(pos token.Pos, format string, args ...any) {
	where := p.tree.Fset.Position(pos)
	p.in(where.Filename, where.Line, format, args...)
}

// in reports a problem at a line of a file.
func (p *pass) in(file string, line int, format string, args ...any) {
	*p.found = append(*p.found, Problem{File: file, Line: line, Rule: p.rule, Text: fmt.Sprintf(format, args...)})
}
