package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// readOnly is the marker of a package-level variable that nothing changes; what follows it is the reason.
var readOnly = regexp.MustCompile(`read-only: *\S`) // read-only: compiled once

// globals allows package-level variables that are errors, blank, embedded files, or marked; none may be changed.
func globals(p *pass) {
	for _, pkg := range p.tree.Packages {
		for _, f := range pkg.Compiled() {
			for _, d := range f.AST.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
					p.declared(pkg, g)
				}
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				for _, x := range changed(pkg.Info, n) {
					if v := global(pkg.Info, x); v != nil {
						p.at(n.Pos(), "%s is a package-level variable: it may not be changed, nor its address taken", v.Name())
					}
				}
				return true
			})
		}
	}
}

// declared judges the variables of one declaration.
func (p *pass) declared(pkg *Package, g *ast.GenDecl) {
	for _, s := range g.Specs {
		spec := s.(*ast.ValueSpec)
		note := g.Doc.Text() + spec.Doc.Text() + spec.Comment.Text() + p.besides(pkg, spec)
		if readOnly.MatchString(note) || embedded(g) {
			continue
		}
		for _, name := range spec.Names {
			if name.Name == "_" || isError(pkg.Info.Defs[name]) {
				continue
			}
			p.at(name.Pos(), "%s is package-level state: put it into a struct of a run, make it a constant, or say `// read-only: why`", name.Name)
		}
	}
}

// besides are the comments on the line where a variable's declaration begins: at a literal of several lines the parser
// gives them to nobody.
func (p *pass) besides(pkg *Package, spec *ast.ValueSpec) string {
	at := p.tree.Fset.Position(spec.Pos())
	var text strings.Builder
	for _, f := range pkg.Compiled() {
		if f.Path != at.Filename {
			continue
		}
		for _, c := range f.AST.Comments {
			if p.line(c.Pos()) == at.Line {
				text.WriteString(c.Text())
			}
		}
	}
	return text.String()
}

// embedded tells whether the compiler fills the variable from a file.
func embedded(g *ast.GenDecl) bool {
	if g.Doc == nil {
		return false
	}
	for _, c := range g.Doc.List {
		if strings.HasPrefix(c.Text, "//go:embed ") {
			return true
		}
	}
	return false
}

// isError tells whether a variable is a sentinel: an error, or of a type that is one.
func isError(o types.Object) bool {
	if o == nil {
		return false
	}
	e := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return types.Implements(o.Type(), e) || types.Implements(types.NewPointer(o.Type()), e)
}

// changed are the expressions that a node assigns to, takes the address of, or hands to delete, clear or copy.
func changed(info *types.Info, n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		if !ok || len(n.Args) == 0 {
			return nil
		}
		if b, ok := info.Uses[id].(*types.Builtin); ok && (b.Name() == "delete" || b.Name() == "clear" || b.Name() == "copy") {
			return n.Args[:1]
		}
	}
	return nil
}

// global returns the package-level variable that an expression is a part of, nil if there is none.
func global(info *types.Info, x ast.Expr) *types.Var {
	for {
		switch e := x.(type) {
		case *ast.ParenExpr:
			x = e.X
		case *ast.IndexExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.SelectorExpr:
			if v, ok := info.Uses[e.Sel].(*types.Var); ok && packageLevel(v) {
				return v
			}
			x = e.X
		case *ast.Ident:
			if v, ok := info.Uses[e].(*types.Var); ok && packageLevel(v) {
				return v
			}
			return nil
		default:
			return nil
		}
	}
}

func packageLevel(v *types.Var) bool { return v.Pkg() != nil && v.Parent() == v.Pkg().Scope() }
