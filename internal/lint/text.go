package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// maxText is the size above which a file is data, not text, in bytes.
const maxText = 1 << 20

// marker finds what says that something is not done; in pieces, so that it does not find itself.
var marker = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"}, "|") + `)\b`) // read-only: compiled once

// word is a text that no committed file may hold.
type word struct {
	text, reason string
}

// banned are in pieces, so that this file may be committed.
var banned = []word{ // read-only: a list of texts
	{"proxy." + "golang.org", "the address of a registry"},
	{"sum." + "golang.org", "the address of a registry"},
	{"GO" + "PROXY", "how modules get here is the machine's affair"},
	{"registry." + "npmjs", "the address of a registry"},
	{"py" + "pi.org", "the address of a registry"},
	{"crates" + ".io", "the address of a registry"},
	{"docker" + ".io/", "the address of a registry"},
	{"ghcr" + ".io", "the address of a registry"},
	{"quay" + ".io", "the address of a registry"},
	{"/wo" + "rk/", "a path of one machine"},
	{"/ho" + "me/", "a path of one machine"},
	{"/ro" + "ot/", "a path of one machine"},
}

// texts calls f for each line of each text file of the tree; results, programs and the rules' own bad examples are no
// part of it.
func (p *pass) texts(f func(file string, line int, text string)) {
	for _, file := range p.tree.textFiles() {
		src, err := os.ReadFile(filepath.Join(p.tree.Root, filepath.FromSlash(file)))
		if err != nil || len(src) > maxText || bytes.IndexByte(src, 0) >= 0 {
			continue
		}
		for i, line := range strings.Split(string(src), "\n") {
			f(file, i+1, line)
		}
	}
}

// textFiles are all files below the root but those that are not committed, and go.sum, which nobody writes.
func (t *Tree) textFiles() []string {
	var files []string
	_ = filepath.WalkDir(t.Root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away
		}
		short, err := filepath.Rel(t.Root, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(short)
		switch {
		case name == ".git" && !d.IsDir(): // of a worktree
		case d.IsDir() && (name == ".git" || name == "bin" || name == "internal/lint/testdata"):
			return fs.SkipDir
		case d.IsDir() && path.Dir(name) == "results":
			return fs.SkipDir
		case d.Type().IsRegular() && path.Base(name) != "go.sum" && name != ".git": // a file in a linked worktree
			files = append(files, name)
		}
		return nil
	})
	return files
}

// markers forbids notes of what is not done, in any text file.
func markers(p *pass) {
	p.texts(func(file string, line int, text string) {
		if m := marker.FindString(text); m != "" {
			p.in(file, line, "%s: do it, or put it into the tracker", m)
		}
	})
}

// link matches a link of a Markdown file to a file of the tree, document matches one that any text names.
var (
	link     = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)              // read-only: compiled once
	document = regexp.MustCompile(`(?:^|[^\w/.])((?:[a-z]+/)+[A-Za-z-]+\.md)\b`) // read-only: compiled once
)

// links wants each document that a text names to exist: by its path from the root, a link by that from its own folder.
func links(p *pass) {
	missing := func(name string) bool {
		_, err := os.Stat(filepath.Join(p.tree.Root, filepath.FromSlash(name)))
		return err != nil
	}
	p.texts(func(file string, line int, text string) {
		if strings.Contains(file, "/testdata/") {
			return // golden files link to what stands beside them in a results directory
		}
		if strings.HasSuffix(file, ".md") {
			for _, m := range link.FindAllStringSubmatch(text, -1) {
				if missing(path.Join(path.Dir(file), m[1])) {
					p.in(file, line, "the link leads to %s, which is not there", m[1])
				}
			}
			text = link.ReplaceAllString(text, "")
		}
		for _, m := range document.FindAllStringSubmatch(text, -1) {
			if missing(m[1]) && missing(path.Join(path.Dir(file), m[1])) {
				p.in(file, line, "%s is not there", m[1])
			}
		}
	})
}

// A test, as a document names it and as a file declares it.
var (
	testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)[`/]") // read-only: a pattern
	testFunc = regexp.MustCompile(`^func (Test\w+)\(`)            // read-only: a pattern
)

// shown wants each test that a document names to exist, under whatever build tag.
func shown(p *pass) {
	tests := map[string]bool{}
	p.texts(func(file string, _ int, text string) {
		if m := testFunc.FindStringSubmatch(text); m != nil && strings.HasSuffix(file, "_test.go") {
			tests[m[1]] = true
		}
	})
	p.texts(func(file string, line int, text string) {
		if !strings.HasSuffix(file, ".md") || strings.Contains(file, "/testdata/") {
			return
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				p.in(file, line, "there is no test %s", m[1])
			}
		}
	})
}

// words forbids the texts of the table, in any text file.
func words(p *pass) {
	p.texts(func(file string, line int, text string) {
		for _, w := range banned {
			if strings.Contains(text, w.text) {
				p.in(file, line, "%q is %s", w.text, w.reason)
			}
		}
	})
}
