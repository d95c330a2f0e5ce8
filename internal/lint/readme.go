package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// readmeBlocks is how many blocks of the README stand before anything else: one runs a scenario, one passes the tests.
const readmeBlocks = 2

// target matches the rule of a target in a Makefile.
var target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`) // read-only: compiled once

// command is one line of a block of code in a text.
type command struct {
	line  int
	words []string
}

// readme wants one command in each of the first blocks, and that what any block names is there: programs, packages,
// scenario files, targets of the Makefile. That the subcommands and flags of bench exist is a test of cmd/bench.
func readme(p *pass) {
	const file = "README.md"
	src, err := os.ReadFile(filepath.Join(p.tree.Root, file))
	if err != nil {
		p.in(file, 1, "there is no README.md")
		return
	}
	blocks := codeBlocks(string(src))
	for i := range readmeBlocks {
		if i >= len(blocks) || len(blocks[i]) != 1 {
			p.in(file, 1, "block %d of the README must hold one command", i+1)
		}
	}
	for _, block := range blocks {
		for _, c := range block {
			p.exists(file, c)
		}
	}
}

// codeBlocks returns the commands of each fenced block that is marked sh, bash or console.
func codeBlocks(text string) [][]command {
	var blocks [][]command
	open, shell := false, false
	for i, line := range strings.Split(text, "\n") {
		if fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			open = !open
			shell = open && slices.Contains([]string{"sh", "bash", "console"}, fence)
			if shell {
				blocks = append(blocks, nil)
			}
			continue
		}
		code, _, _ := strings.Cut(line, " #")
		if words := strings.Fields(strings.TrimPrefix(code, "$ ")); shell && len(words) > 0 && words[0] != "#" {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], command{i + 1, words})
		}
	}
	return blocks
}

// exists reports what a command names and is not there.
func (p *pass) exists(file string, c command) {
	switch c.words[0] {
	case "make":
		makefile, _ := os.ReadFile(filepath.Join(p.tree.Root, "Makefile"))
		for _, w := range c.words[1:] {
			if !slices.ContainsFunc(target.FindAllStringSubmatch(string(makefile), -1), func(m []string) bool { return m[1] == w }) {
				p.in(file, c.line, "the Makefile has no target %s", w)
			}
		}
	case "go", "./bin/bench", "bench", ".ci/run":
	default:
		p.in(file, c.line, "%s: the README uses go, make, .ci/run and ./bin/bench only", c.words[0])
	}
	for _, w := range c.words {
		switch {
		case strings.ContainsAny(w, "<>*=$") || strings.HasPrefix(w, "results/") || strings.HasPrefix(w, "./bin/"):
		case strings.HasPrefix(w, "./") && strings.HasSuffix(w, "..."), strings.HasPrefix(w, "./"), strings.HasSuffix(w, ".yaml"), strings.HasPrefix(w, ".ci/"):
			if _, err := os.Stat(filepath.Join(p.tree.Root, filepath.FromSlash(strings.TrimSuffix(w, "...")))); err != nil {
				p.in(file, c.line, "%s does not exist", w)
			}
		}
	}
}
