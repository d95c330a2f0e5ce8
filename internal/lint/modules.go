package lint

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// owner says which packages may import a module, and why it is there.
type owner struct {
	module string
	by     []string
	reason string
}

// owners are the modules of others that the program uses. Tests are exempt.
var owners = []owner{ // read-only: a table of the architecture
	{"github.com/minio/minio-go", []string{"backend/store/s3store"}, "the S3 client; one package knows its errors"},
	{"github.com/testcontainers/testcontainers-go", []string{"backend/store/provision/minio"}, "containers of stores"},
	{"github.com/moby/moby", []string{"backend/store/provision/minio"}, "the engine that runs them"},
	{"github.com/containerd/errdefs", []string{"backend/store/provision/minio"}, "the engine's errors"},
	{"github.com/goccy/go-yaml", []string{"internal/scenario", "internal/registry"}, "scenario files; the rest sees values"},
	{"github.com/dustin/go-humanize", []string{"internal/registry"}, "sizes as people write them"},
	{"github.com/spf13/cobra", []string{"cmd/bench"}, "the command line"},
	{"github.com/spf13/pflag", []string{"cmd/bench"}, "the command line"},
	{"golang.org/x/term", []string{"cmd/bench"}, "the width of the terminal"},
	{"github.com/zeebo/xxh3", []string{"internal/...", "backend/..."}, "the one hash of digests, checksums and seeds"},
	{"github.com/klauspost/compress", []string{"backend/dstl", "backend/blocks", "internal/results"}, "block compression of segments, snapshots, savepoints and long results"},
	{"github.com/tidwall/btree", []string{"backend/store", "backend/store/embedded", "backend/heap", "backend/dstl/file", "backend/dstl/memory"}, "ordered keys of a listing"},
	{"github.com/cockroachdb/pebble", []string{"backend/lsm"}, "the embedded database"},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"internal/engine", "internal/results", "internal/stats", "internal/run", "report"}, "latencies without keeping each"},
	{"github.com/montanaflynn/stats", []string{"internal/stats"}, "quantiles and moments of samples"},
	{"gonum.org/v1/plot", []string{"report"}, "charts"},
	{"golang.org/x/image", []string{"report"}, "fonts and pictures of charts"},
	{"codeberg.org/go-fonts/liberation", []string{"report"}, "the typeface of charts"},
}

// modulesHold compares the imports of other modules with the table.
func modulesHold(p *pass) {
	for _, pkg := range p.tree.Packages {
		p.eachImport(pkg, func(_ *File, spec *ast.ImportSpec, to string) {
			if p.tree.own(to) || !strings.Contains(strings.Split(to, "/")[0], ".") {
				return
			}
			i := slices.IndexFunc(owners, func(o owner) bool { return matches([]string{o.module + "/..."}, to) })
			switch {
			case i < 0:
				p.at(spec.Pos(), "%s has no owner: add a row with its reason to internal/lint/modules.go", to)
			case !matches(owners[i].by, pkg.Path):
				p.at(spec.Pos(), "%s belongs to %s (%s), not to %s", to, strings.Join(owners[i].by, ", "), owners[i].reason, pkg.Path)
			}
		})
	}
}

// commandLine keeps flags, exit codes and the standard streams in cmd/bench.
func commandLine(p *pass) {
	for _, pkg := range p.tree.Packages {
		if pkg.Path == "cmd/bench" {
			continue
		}
		for _, f := range pkg.Compiled() {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if what := console(pkg.Info.Uses[id]); what != "" {
					p.at(id.Pos(), "%s belongs in cmd/bench: take an io.Writer or return a value", what)
				}
				return true
			})
		}
	}
}

// console names what only a command may use, and is empty for all else.
func console(o types.Object) string {
	if o == nil {
		return ""
	}
	if _, ok := o.(*types.Builtin); ok {
		if o.Name() == "print" || o.Name() == "println" {
			return o.Name()
		}
		return ""
	}
	if o.Pkg() == nil || o.Parent() != o.Pkg().Scope() {
		return ""
	}
	name := o.Pkg().Path() + "." + o.Name()
	switch o.Pkg().Path() {
	case "flag", "log":
		return name
	case "os":
		if slices.Contains([]string{"Exit", "Args", "Stdin", "Stdout", "Stderr"}, o.Name()) {
			return name
		}
	case "fmt":
		if slices.Contains([]string{"Print", "Printf", "Println"}, o.Name()) {
			return name
		}
	}
	return ""
}

// testings keeps package testing and its like in tests and in the conformance suites.
func testings(p *pass) {
	for _, pkg := range p.tree.Packages {
		if slices.Contains([]string{"backend/store/storetest", "backend/backendtest", "backend/dstl/dstltest"}, pkg.Path) {
			continue
		}
		p.eachImport(pkg, func(f *File, spec *ast.ImportSpec, to string) {
			if to == "testing" || strings.HasPrefix(to, "testing/") {
				p.at(spec.Pos(), "%s imports %s: only tests and conformance suites do", f.Path, to)
			}
		})
	}
}
