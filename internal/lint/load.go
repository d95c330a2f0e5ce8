package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tree is a module as the rules see it: its packages parsed and type-checked, its other files as text.
type Tree struct {
	// Root is the folder of go.mod.
	Root string
	// Module is the module's path; the packages' paths are relative to it.
	Module string
	// Fset places every node; its file names are relative to Root, with slashes.
	Fset *token.FileSet
	// Packages stand in the order of their imports, imported ones first.
	Packages []*Package
	// Limits are those of the size rule.
	Limits Limits
	// Errors are what did not build; rules that need types see less where there are any.
	Errors []error
}

// Limits are the largest sizes in lines.
type Limits struct {
	File, Func int
}

// Package is one folder of Go files.
type Package struct {
	// Path is the import path below the module's, such as backend/store.
	Path string
	// Name is that of the package clauses.
	Name string
	// Imports are the import paths of the compiled files; those of this module are relative like Path.
	Imports []string
	// Files are the compiled files first, then tests and files that the build tags leave out.
	Files []*File
	// Types and Info are those of the compiled files.
	Types *types.Package
	// Info has Defs, Uses and Types filled in.
	Info *types.Info
}

// File is one Go file.
type File struct {
	// Path is relative to the root, with slashes.
	Path string
	// AST has comments.
	AST *ast.File
	// Lines is the number of lines.
	Lines int
	// Compiled is false for tests and for what the build tags leave out.
	Compiled bool
	// Test is true for _test.go.
	Test bool
}

// Compiled returns the files that Info covers.
func (p *Package) Compiled() []*File {
	n := 0
	for n < len(p.Files) && p.Files[n].Compiled {
		n++
	}
	return p.Files[:n]
}

// Lookup returns the package of a relative path, nil if there is none.
func (t *Tree) Lookup(path string) *Package {
	for _, p := range t.Packages {
		if p.Path == path {
			return p
		}
	}
	return nil
}

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Dir, Name, Export                                string
	Standard                                                     bool
	Module                                                       *struct{ Path, Dir string }
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
	Imports                                                      []string
	Error                                                        *struct{ Err string }
}

// Load reads the module in a folder as it is built with the given tags. Packages that do not build are loaded as far
// as they go and named in Errors; the error is about the go command itself.
func Load(root string, tags ...string) (*Tree, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	all, err := list(root, tags)
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root, Fset: token.NewFileSet(), Limits: Limits{File: 500, Func: 80}}
	exports := map[string]string{}
	var own []listed
	for _, l := range all {
		switch {
		case l.Module != nil && resolved(l.Module.Dir) == resolved(root):
			t.Module = l.Module.Path
			own = append(own, l)
		case l.Export != "":
			exports[l.ImportPath] = l.Export
		}
	}
	done := map[string]*types.Package{}
	gc := importer.ForCompiler(t.Fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	imports := importFunc(func(path string) (*types.Package, error) {
		if p := done[path]; p != nil {
			return p, nil
		}
		return gc.Import(path)
	})
	for _, l := range own {
		p, err := t.load(l, imports)
		if err != nil {
			return nil, err
		}
		done[l.ImportPath] = p.Types
		t.Packages = append(t.Packages, p)
	}
	return t, nil
}

type importFunc func(string) (*types.Package, error)

// Import implements types.Importer.
func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

// list asks the go command for all packages and what they import.
func list(root string, tags []string) ([]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-export", "-tags", strings.Join(tags, ","),
		"-json=ImportPath,Dir,Name,Export,Standard,Module,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,Error", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, l)
	}
}

// load parses all files of a package and type-checks the compiled ones.
func (t *Tree) load(l listed, imports types.Importer) (*Package, error) {
	p := &Package{Path: t.relative(l.ImportPath), Name: l.Name}
	for _, path := range l.Imports {
		p.Imports = append(p.Imports, t.relative(path))
	}
	if l.Error != nil {
		t.Errors = append(t.Errors, fmt.Errorf("%s: %s", l.ImportPath, l.Error.Err))
	}
	names := slices.Concat(l.GoFiles, l.CgoFiles, l.TestGoFiles, l.XTestGoFiles, l.IgnoredGoFiles)
	var compiled []*ast.File
	for i, name := range names {
		f, err := t.parse(filepath.Join(l.Dir, name))
		if err != nil {
			return nil, err
		}
		f.Compiled = i < len(l.GoFiles)+len(l.CgoFiles)
		if f.Compiled {
			compiled = append(compiled, f.AST)
		}
		p.Files = append(p.Files, f)
	}
	p.Info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: imports, Error: func(err error) { t.Errors = append(t.Errors, err) }}
	p.Types, _ = conf.Check(l.ImportPath, t.Fset, compiled, p.Info) // Error has it
	return p, nil
}

func (t *Tree) parse(path string) (*File, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	short, err := filepath.Rel(resolved(t.Root), resolved(path))
	if err != nil {
		return nil, err
	}
	f := &File{Path: filepath.ToSlash(short), Lines: bytes.Count(src, []byte{'\n'}), Test: strings.HasSuffix(path, "_test.go")}
	f.AST, err = parser.ParseFile(t.Fset, f.Path, src, parser.ParseComments|parser.SkipObjectResolution)
	if f.AST == nil {
		return nil, err
	}
	if err != nil {
		t.Errors = append(t.Errors, err)
	}
	return f, nil
}

// resolved follows symbolic links where it can.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// relative cuts the module's own path off; the module's root package is ".".
func (t *Tree) relative(path string) string {
	if path == t.Module {
		return "."
	}
	return strings.TrimPrefix(path, t.Module+"/")
}

// own tells whether a relative import path belongs to the module; the first element of any other path than the
// standard library's has a dot, and own packages are those of the tree.
func (t *Tree) own(path string) bool { return t.Lookup(path) != nil }

// reach returns what the roots import, over any number of steps, in the order of the tree; the roots are in it.
func (t *Tree) reach(roots ...string) []*Package {
	in := map[string]bool{}
	for _, r := range roots {
		in[r] = true
	}
	var found []*Package
	for _, p := range slices.Backward(t.Packages) { // importing ones first
		if !in[p.Path] {
			continue
		}
		for _, path := range p.Imports {
			in[path] = true
		}
		found = append(found, p)
	}
	slices.Reverse(found)
	return found
}
