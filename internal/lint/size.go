package lint

import "go/ast"

// sizes measures files, tests too, and functions outside tests.
func sizes(p *pass) {
	for _, pkg := range p.tree.Packages {
		for _, f := range pkg.Files {
			if f.Lines > p.tree.Limits.File {
				p.at(f.AST.Package, "the file has %d lines, the limit is %d", f.Lines, p.tree.Limits.File)
			}
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				from, to := p.tree.Fset.Position(fn.Pos()).Line, p.tree.Fset.Position(fn.End()).Line
				if n := to - from + 1; n > p.tree.Limits.Func {
					p.at(fn.Pos(), "%s has %d lines, the limit is %d", fn.Name.Name, n, p.tree.Limits.Func)
				}
			}
		}
	}
}
