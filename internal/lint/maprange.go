package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// orderFree is the marker of a range over a map whose order cannot be seen; what follows it is the reason.
var orderFree = regexp.MustCompile(`order-free: *\S`) // read-only: compiled once

// mapRanges wants the marker at each range over a map in the packages that simulated worlds run.
func mapRanges(p *pass) {
	for _, pkg := range p.tree.reach(simulated...) {
		if excused(pkg.Path, kindMap) {
			continue
		}
		for _, f := range pkg.Compiled() {
			marked := p.marked(f, orderFree)
			sorted := map[ast.Node]bool{}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.RangeStmt:
					if _, ok := under(pkg.Info, n.X).(*types.Map); ok && (n.Key != nil || n.Value != nil) && !marked[p.line(n.Pos())] {
						p.at(n.Pos(), "range over a map: sort the keys, or say `// order-free: why` on this line")
					}
				case *ast.CallExpr:
					if isFunc(pkg.Info, n.Fun, "slices", "Sorted", "SortedFunc", "SortedStableFunc") && len(n.Args) > 0 {
						sorted[n.Args[0]] = true
					}
					if isFunc(pkg.Info, n.Fun, "maps", "Keys", "Values", "All") && !sorted[n] && !marked[p.line(n.Pos())] {
						p.at(n.Pos(), "the order of a map: wrap it in slices.Sorted, or say `// order-free: why` on this line")
					}
				}
				return true
			})
		}
	}
}

func (p *pass) line(pos token.Pos) int { return p.tree.Fset.Position(pos).Line }

// marked are the lines of a file that a matching comment stands on, and those right under a comment of its own.
func (p *pass) marked(f *File, marker *regexp.Regexp) map[int]bool {
	lines := map[int]bool{}
	for _, g := range f.AST.Comments {
		for _, c := range g.List {
			if marker.MatchString(c.Text) {
				lines[p.line(c.Pos())] = true
				lines[p.line(g.End())+1] = true
			}
		}
	}
	return lines
}

// isFunc tells whether an expression names one of a package's functions, with or without type arguments.
func isFunc(info *types.Info, fun ast.Expr, path string, names ...string) bool {
	switch x := ast.Unparen(fun).(type) {
	case *ast.IndexExpr:
		return isFunc(info, x.X, path, names...)
	case *ast.IndexListExpr:
		return isFunc(info, x.X, path, names...)
	case *ast.SelectorExpr:
		o := info.Uses[x.Sel]
		return o != nil && o.Pkg() != nil && o.Pkg().Path() == path && slices.Contains(names, o.Name()) && o.Parent() == o.Pkg().Scope()
	}
	return false
}

// recovers forbids recover and runtime.Goexit in all packages but the world's own and the command.
func recovers(p *pass) {
	for _, pkg := range p.tree.Packages {
		if pkg.Path == "internal/world" || pkg.Path == "cmd/bench" {
			continue // a kill is a panic that ends at the root of its process; the command is outside of all worlds
		}
		for _, f := range pkg.Compiled() {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				switch o := pkg.Info.Uses[id].(type) {
				case *types.Builtin:
					if o.Name() == "recover" {
						p.at(id.Pos(), "recover swallows the kill of a process; let the world's root report the panic")
					}
				case *types.Func:
					if o.Pkg() != nil && o.Pkg().Path() == "runtime" && o.Name() == "Goexit" {
						p.at(id.Pos(), "runtime.Goexit ends a process behind the world's back; return an error")
					}
				}
				return true
			})
		}
	}
}

// sleeps forbids time.Sleep in tests, but for those in a bubble of testing/synctest, and in packages whose clock is a world's.
func sleeps(p *pass) {
	for _, pkg := range p.tree.Packages {
		for _, f := range pkg.Files {
			if imports(f, "testing/synctest") || !imports(f, "time") || !f.Test && excused(pkg.Path, kindClock) {
				continue
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
						p.at(n.Pos(), "time.Sleep: run in the simulated world, or wait for the event")
					}
				}
				return true
			})
		}
	}
}

// imports tells whether a file imports a path.
func imports(f *File, path string) bool {
	return slices.ContainsFunc(f.AST.Imports, func(s *ast.ImportSpec) bool { return strings.Trim(s.Path.Value, "\"`") == path })
}
