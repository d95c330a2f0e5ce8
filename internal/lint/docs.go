package lint

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"unicode"
)

// packageComments wants the comment in the file named like the package (main.go for a command), and only there.
func packageComments(p *pass) {
	for _, pkg := range p.tree.Packages {
		if len(pkg.Compiled()) == 0 {
			continue
		}
		home, want := pkg.Name+".go", "Package "+pkg.Name+" "
		if pkg.Name == "main" {
			want = "Command " + path.Base(pkg.Path) + " "
		}
		found := false
		for _, f := range pkg.Files {
			switch {
			case path.Base(f.Path) == home:
				found = true
				if !strings.HasPrefix(f.AST.Doc.Text(), want) {
					p.at(f.AST.Package, "the package comment must start with %q", want)
				}
			case f.AST.Doc != nil && !f.Test:
				p.at(f.AST.Package, "the package comment belongs in %s alone", home)
			}
		}
		if !found {
			p.at(pkg.Files[0].AST.Package, "package %s has no file %s for its comment", pkg.Name, home)
		}
	}
}

// exportedDocs wants a comment at each exported name that starts with the name.
func exportedDocs(p *pass) {
	for _, pkg := range p.tree.Packages {
		for _, f := range pkg.Files {
			if f.Test {
				continue
			}
			for _, d := range f.AST.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && receiverExported(d) {
						p.doc(d.Name, d.Doc)
					}
				case *ast.GenDecl:
					p.genDoc(d)
				}
			}
		}
	}
}

// receiverExported is false for methods of types that other packages cannot name.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return ast.IsExported(name)
}

func (p *pass) doc(name *ast.Ident, doc *ast.CommentGroup) {
	text := doc.Text()
	switch first, _, _ := strings.Cut(strings.ReplaceAll(text, "\n", " "), " "); {
	case text == "":
		p.at(name.Pos(), "%s has no comment", name.Name)
	case strings.TrimRight(first, ",.:;'s") != strings.TrimRight(name.Name, "s"):
		p.at(name.Pos(), "the comment of %s must start with its name", name.Name)
	}
}

// genDoc accepts the comment of a group of constants or variables for all of its members, and a comment on the line.
func (p *pass) genDoc(d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if !s.Name.IsExported() {
				continue
			}
			doc := s.Doc
			if doc == nil && !d.Lparen.IsValid() {
				doc = d.Doc
			}
			p.doc(s.Name, doc)
			if t, ok := s.Type.(*ast.InterfaceType); ok {
				p.methodDocs(s.Name.Name, doc.Text(), t)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				switch {
				case !name.IsExported():
				case s.Doc != nil && len(s.Names) == 1:
					p.doc(name, s.Doc)
				case d.Doc != nil && !d.Lparen.IsValid() && len(s.Names) == 1:
					p.doc(name, d.Doc)
				case s.Doc == nil && s.Comment == nil && d.Doc == nil:
					p.at(name.Pos(), "%s has no comment, and neither has its group", name.Name)
				}
			}
		}
	}
}

// methodDocs wants a comment at each method of an interface: its own, that of the method on the line above, or that of
// the interface, where it tells of the method by name or there is no other method.
func (p *pass) methodDocs(of, doc string, t *ast.InterfaceType) {
	end := token.NoPos
	for _, m := range t.Methods.List {
		if len(m.Names) == 0 || !m.Names[0].IsExported() {
			continue
		}
		name := m.Names[0].Name
		if m.Doc != nil {
			p.doc(m.Names[0], m.Doc)
		}
		adjoining := end.IsValid() && p.line(m.Pos()) == p.line(end)+1
		told := doc != "" && len(t.Methods.List) == 1 || slices.Contains(strings.FieldsFunc(doc, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), name)
		if m.Doc == nil && m.Comment == nil && !adjoining && !told {
			p.at(m.Pos(), "method %s.%s has no comment, and that of %s does not tell of it", of, name, of)
			continue
		}
		end = m.End()
	}
}
