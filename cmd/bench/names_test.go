package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	// A command stands at the start of a line or after a space, quote or bracket, and may be called by its path.
	commandName = regexp.MustCompile(`(?:^|[\s` + "`" + `"'(]|\./bin/|\./cmd/)bench ([a-z][a-z-]*)`)
	// A flag stands likewise.
	flagName = regexp.MustCompile(`(?:^|[\s` + "`" + `"'(\[])--([a-z][a-z-]+)`)
	// What list and describe are asked for.
	argumentName = regexp.MustCompile(`\bbench (list|describe) ([a-z][a-z-]*)`)
	// In scripts only what is called by its path is ours.
	scriptName = regexp.MustCompile(`(\./bin/|\./cmd/)bench [a-z]`)
	// Other programs have flags too.
	otherProgram = regexp.MustCompile(`\b(git|docker|curl) `)
)

// others follow the program's name and are no commands: words of a sentence, and what a script expects to be refused.
var others = map[string]bool{"runs": true, "no-such-command": true}

// styleProperty is how the names of colours in the charts' style sheets begin.
const styleProperty = "plot-"

// TestTextsNameOnlyWhatExists looks for commands and flags in all that the program prints, in the scenarios and in the
// documents, and asks the command line for each.
func TestTextsNameOnlyWhatExists(t *testing.T) {
	flags := map[string]map[string]bool{}
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		flags[c.Name()] = flagsOf(c)
	}
	const root = "../.."
	check := func(where, text string) {
		script := where == "Makefile" || where == ".ci/run"
		for _, line := range strings.Split(text, "\n") {
			if script && !scriptName.MatchString(line) {
				continue
			}
			if !otherProgram.MatchString(line) {
				checkLine(t, where, line, flags)
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() && (name == ".git" || name == "bin" || strings.HasPrefix(name, "results/") || d.Name() == "testdata" || name == "internal/lint" || name == "internal/tools") {
			return fs.SkipDir
		}
		switch ext := filepath.Ext(name); {
		case d.IsDir() || strings.HasSuffix(name, "_test.go"):
			return nil
		case ext == ".go":
			return eachText(path, check)
		case ext == ".md" || ext == ".yaml" || name == "Makefile" || name == ".ci/run":
			src, err := os.ReadFile(path)
			check(name, string(src))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// flagsOf are the long names of a command's flags.
func flagsOf(c *cobra.Command) map[string]bool {
	c.InitDefaultHelpFlag()
	names := map[string]bool{}
	c.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	for _, sub := range c.Commands() { // a line names the first word of a command only
		maps.Copy(names, flagsOf(sub))
	}
	return names
}

// checkLine wants each command to exist and to have the flags that follow it; a flag without a command must be one of
// any command's.
func checkLine(t *testing.T, where, line string, flags map[string]map[string]bool) {
	t.Helper()
	end := 0
	var command string
	for _, m := range flagName.FindAllStringSubmatchIndex(line, -1) {
		flag := line[m[2]:m[3]]
		for _, c := range commandName.FindAllStringSubmatch(line[end:m[2]], -1) {
			command = c[1]
		}
		end = m[2]
		known := command != "" && flags[command][flag] || strings.HasPrefix(flag, styleProperty)
		for _, of := range flags {
			known = known || (command == "" || flags[command] == nil) && of[flag]
		}
		if !known {
			t.Errorf("%s: there is no flag --%s of %q: %s", where, flag, command, strings.TrimSpace(line))
		}
	}
	for _, c := range commandName.FindAllStringSubmatch(line, -1) {
		if flags[c[1]] == nil && !others[c[1]] {
			t.Errorf("%s: there is no command %q: %s", where, c[1], strings.TrimSpace(line))
		}
	}
	for _, c := range argumentName.FindAllStringSubmatch(line, -1) {
		_, err := describe(c[2])
		if c[1] == "list" && !slices.Contains(listKinds(), c[2]) || c[1] == "describe" && err != nil {
			t.Errorf("%s: there is nothing to %s called %q: %s", where, c[1], c[2], strings.TrimSpace(line))
		}
	}
}

// eachText calls f for each string literal of a Go file, but for the arguments of other programs.
func eachText(path string, f func(where, text string)) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Command" || s.Sel.Name == "CommandContext") {
				return false
			}
		case *ast.CompositeLit:
			return !argumentList(n)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				text, err := strconv.Unquote(n.Value)
				if err != nil {
					return true
				}
				f(fset.Position(n.Pos()).String(), text)
			}
		}
		return true
	})
	return nil
}

// argumentList tells whether a list of texts is the command line of a program: one of them is a flag.
func argumentList(l *ast.CompositeLit) bool {
	return slices.ContainsFunc(l.Elts, func(e ast.Expr) bool {
		text, ok := e.(*ast.BasicLit)
		return ok && strings.HasPrefix(text.Value, `"--`)
	})
}

// TestNamesAreFound proves that the search finds commands and flags that do not exist.
func TestNamesAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"run it with `bench run x.yaml --seed 7`":      2,
		"  go run ./cmd/bench plan x.yaml --check":     2,
		"./bin/bench check results/x":                  1,
		"a{--plot-ink:#333}":                           0,
		"cmd/bench test, benchmarks, | --- | a -- b":   0,
		"add --store dir:PATH (or --world sim)":        2,
		"\"bench list\" prints them; see bench report": 2,
	} {
		got := len(commandName.FindAllString(text, -1)) + len(flagName.FindAllString(text, -1))
		if got != want {
			t.Errorf("%q: found %d names, want %d", text, got, want)
		}
	}
}
