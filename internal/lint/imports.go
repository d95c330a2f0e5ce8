package lint

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// levels are those of docs/architecture.md: a package imports lower levels only, and of its own level what beside
// names. Tests are exempt.
var levels = map[string]int{ // read-only: a table of the architecture
	"cmd/bench": 10,

	"internal/catalog": 9,

	"internal/compare": 8, "internal/explore": 8, "internal/serve": 8,

	"internal/run": 7,

	"internal/validate": 6, "internal/scenario": 6, "internal/audit": 6, "internal/scrub": 6, "report": 6,

	"internal/engine": 5, "internal/results": 5, "internal/metrics": 5, "faults": 5,

	"backend/changelog": 4, "backend/localcopy": 4, "workloads": 4, "internal/sinks": 4, "backend/store/provision": 4, "backend/dstl/dstltest": 4, "backend/dstl/file": 4, "backend/dstl/memory": 4,

	"backend/checkpoint": 3, "backend/dstl": 3, "backend/blocks": 3, "backend/heap": 3, "backend/lsm": 3, "backend/savepoint": 3, "backend/backendtest": 3,
	"backend/store/s3store": 3, "backend/store/embedded": 3, "backend/store/dirstore": 3, "backend/store/storetest": 3, "backend/store/provision/minio": 3,

	"backend/store": 2, "backend": 2, "internal/graph": 2, "internal/target": 2,

	"internal/history": 1, "internal/failpoint": 1, "internal/world": 1,

	"internal/seed": 0, "internal/keygroup": 0, "internal/canon": 0, "internal/registry": 0, "internal/plan": 0,
	"internal/stats": 0, "internal/lint": 0,
}

// beside are the imports within one level, importing package first.
var beside = [][2]string{ // read-only: a table of the architecture
	{"backend", "backend/store"},          // a handle names objects
	{"backend/heap", "backend/savepoint"}, // each backend writes and reads the canonical form
	{"backend/lsm", "backend/savepoint"},
	{"backend/heap", "backend/blocks"}, // its snapshots and the canonical form are objects of one kind
	{"backend/savepoint", "backend/blocks"},
	{"internal/graph", "backend"},          // an operator keeps typed state
	{"internal/history", "internal/world"}, // the recorder asks the world's clock
	{"internal/failpoint", "internal/world"},
	{"internal/metrics", "internal/results"}, // figures come from stored rows
	{"internal/plan", "internal/registry"},   // durations and sizes as files write them
}

// levelsHold compares each import with the table.
func levelsHold(p *pass) {
	for _, pkg := range p.tree.Packages {
		if len(pkg.Compiled()) == 0 {
			continue
		}
		own, known := levels[pkg.Path]
		if !known {
			p.at(pkg.Files[0].AST.Package, "%s has no level: add a row to the table in internal/lint/imports.go", pkg.Path)
			continue
		}
		p.eachImport(pkg, func(f *File, spec *ast.ImportSpec, to string) {
			level, known := levels[to]
			if !known || level < own || slices.Contains(beside, [2]string{pkg.Path, to}) {
				return // what has no level is reported where it is declared
			}
			p.at(spec.Pos(), "%s (level %d) imports %s (level %d): imports go downward", pkg.Path, own, to, level)
		})
	}
}

// eachImport calls f for each import of a package's compiled files, with the path as Package.Imports writes it.
func (p *pass) eachImport(pkg *Package, f func(*File, *ast.ImportSpec, string)) {
	for _, file := range pkg.Compiled() {
		for _, spec := range file.AST.Imports {
			f(file, spec, p.tree.relative(strings.Trim(spec.Path.Value, "\"`")))
		}
	}
}

// importRule is a row of the rules that levels alone do not express.
type importRule struct {
	number int // in docs/architecture.md
	// from are the packages that the rule binds, without those of except.
	from, except []string
	// never are packages that from may not import; nor reach over others when far is set.
	never []string
	far   bool
	// only are the packages of this module that from may import, nil for no such limit.
	only   []string
	reason string
}

// importRules are rules 1 to 5; rules 6 to 9 are about names, not imports, and are functions of their own.
// A path that ends in /... is a package and all below it.
var importRules = []importRule{ // read-only: a table of the architecture
	{number: 1, from: []string{"backend/..."}, never: []string{"internal/engine", "internal/run", "workloads", "faults", "internal/scenario"}, far: true,
		reason: "the backend can be lifted out and tested alone"},
	{number: 2, from: []string{"report"}, only: []string{"internal/results", "internal/metrics", "internal/plan", "internal/history", "internal/stats"},
		reason: "any old run can be rendered again from its files"},
	{number: 3, from: []string{"internal/validate"},
		never:  []string{"internal/engine", "internal/target", "internal/run", "internal/audit", "internal/world", "backend", "backend/store/...", "backend/heap", "backend/lsm", "backend/changelog", "backend/dstl"},
		reason: "a run is judged from the files it left, so that it can be judged again; what needs objects and backends is internal/audit"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog", "backend/heap", "backend/lsm"}, never: []string{"backend/heap", "backend/lsm"},
		reason: "only the catalog calls constructors of backends"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog"}, never: []string{"backend/dstl/file", "backend/dstl/memory"},
		reason: "only the catalog opens the storages of changelogs, which are an open set"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog", "backend/store/provision"}, never: []string{"backend/store/s3store", "backend/store/dirstore"},
		reason: "a store is opened in one place"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog", "backend/store/provision", "cmd/bench"}, never: []string{"backend/store/embedded"},
		reason: "cmd/bench holds the hidden entry of the child process"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog", "backend/store/provision", "cmd/bench"}, never: []string{"backend/store/provision/minio"},
		reason: "containers are started in one place; cmd/bench holds the hidden entry of their guard"},
	{number: 4, from: []string{"..."}, except: []string{"internal/catalog", "internal/run", "cmd/bench"}, never: []string{"backend/store/provision"},
		reason: "cmd/bench puts the constructor into run.Deps, run names its types only"},
	{number: 4, from: []string{"..."}, except: []string{"cmd/bench"}, never: []string{"internal/catalog"},
		reason: "who knows all implementations can be tested with none of its own"},
	{number: 7, from: []string{"..."}, except: []string{"cmd/bench"}, never: []string{"internal/lint"},
		reason: "the linter is no part of the program"},
}

// modelImports are what the model of a workload may import of this module: rule 5.
var modelImports = []string{"internal/seed", "internal/keygroup", "internal/canon"} // read-only: a table of the architecture

// importsHold applies the rows, and rule 5 to the files that hold a model.
func importsHold(p *pass) {
	for _, pkg := range p.tree.Packages {
		for _, r := range importRules {
			if matches(r.from, pkg.Path) && !matches(r.except, pkg.Path) {
				p.importRule(pkg, r)
			}
		}
		p.eachImport(pkg, func(f *File, spec *ast.ImportSpec, to string) {
			if pkg.Path != "workloads" || !strings.HasSuffix(f.Path, "_model.go") || slices.Contains(modelImports, to) {
				return
			}
			if p.tree.own(to) || strings.Contains(strings.Split(to, "/")[0], ".") {
				p.at(spec.Pos(), "rule 5: a model imports the standard library, seed, keygroup and canon, not %s: the oracle must be able to disagree", to)
			}
		})
	}
}

func (p *pass) importRule(pkg *Package, r importRule) {
	p.eachImport(pkg, func(_ *File, spec *ast.ImportSpec, to string) {
		if !p.tree.own(to) {
			return
		}
		if r.only != nil && !slices.Contains(r.only, to) {
			p.at(spec.Pos(), "rule %d: %s may not import %s: %s", r.number, pkg.Path, to, r.reason)
		}
		if matches(r.never, to) {
			p.at(spec.Pos(), "rule %d: %s may not import %s: %s", r.number, pkg.Path, to, r.reason)
			return
		}
		if !r.far {
			return
		}
		for _, reached := range p.tree.reach(to) {
			if matches(r.never, reached.Path) {
				p.at(spec.Pos(), "rule %d: %s reaches %s over %s: %s", r.number, pkg.Path, reached.Path, to, r.reason)
			}
		}
	})
}

// matches tells whether a path is one of the patterns; "..." matches all.
func matches(patterns []string, of string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if tree, ok := strings.CutSuffix(pattern, "..."); ok {
			tree = path.Clean("/" + tree)
			return tree == "/" || "/"+of == tree || strings.HasPrefix("/"+of, tree+"/")
		}
		return pattern == of
	})
}
