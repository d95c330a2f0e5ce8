package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// simulated are the packages whose processes run in a simulated world, with all that they import.
var simulated = []string{"internal/engine", "internal/run", "internal/audit", "faults", "workloads", "internal/sinks"} // read-only: a list of rule 7

// What rule 7 forbids, by kind.
const (
	kindGoroutine = "goroutine" // what runs beside the processes that the scheduler knows
	kindChannel   = "channel"   // channels, select: parks where the scheduler cannot see it
	kindClock     = "clock"     // the wall clock and its timers
	kindContext   = "context"   // contexts whose end wakes nobody in a simulated world
	kindWait      = "wait"      // what may wait, or keeps state that differs from run to run
	kindLock      = "lock"      // a mutex: never waits in a simulation as long as nobody parks under it
	kindFiles     = "files"     // the disk, past the world's own
	kindRandom    = "random"    // randomness that is not the seed's
	kindProcess   = "process"   // this process, its host, its network
	kindAddress   = "address"   // addresses in texts
	kindMap       = "map"       // the order of maps
	kindAll       = "all"
)

// excuse lets a package do what rule 7 forbids.
type excuse struct {
	path   string
	kinds  []string
	reason string
}

// excuses are the packages that simulated ones reach and that may do more, each with the reason.
var excuses = []excuse{ // read-only: a table of rule 7
	{"internal/world", []string{kindAll}, "its real half is where goroutines, clocks, timers and files come from; its simulated half is the scheduler"},
	{"backend/store/s3store", []string{kindAll}, "the S3 client starts goroutines; the simulated world takes store mem"},
	{"backend/store/dirstore", []string{kindAll}, "a folder of the real machine; the simulated world takes store mem"},
	{"backend/store/embedded", []string{kindAll}, "a server in a process of its own; the simulated world takes store mem"},
	{"backend/store/provision", []string{kindAll}, "opens what the real machine has"},
	{"backend/store/provision/minio", []string{kindAll}, "drives the container engine of the real machine, part of it in a process of its own"},
	{"backend/store", []string{kindLock}, "store mem serves many processes and gives up its lock before it returns"},
	{"backend/lsm", []string{kindAll}, "the embedded database has threads of its own; in simulation they are off, and all its work is done inside the calls (docs/lsm.md)"},
	{"internal/history", []string{kindLock}, "the recorder orders events of many processes and calls observers under its lock, which must not park"},
	{"internal/results", []string{kindLock, kindFiles, kindProcess}, "what a run leaves is files of the real machine in both worlds; writing them takes no virtual time"},
	{"internal/validate", []string{kindFiles}, "it reads what a run left, once its world has ended"},
	{"internal/run", []string{kindLock, kindProcess}, "its tables are touched from the recorder's observers, which have no process; what the process used is measured, never acted on"},
	{"faults", []string{kindLock}, "counts of hits are touched from the recorder's observers, which have no process"},
}

// forbidden are names of the standard library and others, by import path: the kind, and what to use instead. The name
// "*" stands for all that are not listed as allowed.
var forbidden = map[string]struct { // read-only: a table of rule 7
	kind, instead string
	names         []string // nil: all
	allowed       []string
}{
	"time":                   {kindClock, "world.Now, world.Sleep or world.Timer", strings.Fields("Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker"), nil},
	"context":                {kindContext, "world.WithCancel or world.WithTimeout", strings.Fields("WithCancel WithCancelCause WithTimeout WithTimeoutCause WithDeadline WithDeadlineCause AfterFunc"), nil},
	"sync":                   {kindWait, "world.Latch, Group, Semaphore or Queue", nil, strings.Fields("Mutex RWMutex Locker")},
	"os":                     {kindFiles, "world.Disk, or a table of run.Deps", nil, strings.Fields("ErrNotExist ErrExist ErrPermission ErrClosed ErrInvalid ErrDeadlineExceeded")},
	"io/ioutil":              {kindFiles, "world.Disk", nil, nil},
	"path/filepath":          {kindFiles, "world.Disk", strings.Fields("Walk WalkDir Glob EvalSymlinks Abs"), nil},
	"os/exec":                {kindProcess, "a table of run.Deps", nil, nil},
	"os/signal":              {kindProcess, "a table of run.Deps", nil, nil},
	"os/user":                {kindProcess, "a table of run.Deps", nil, nil},
	"syscall":                {kindProcess, "a table of run.Deps", nil, nil},
	"net":                    {kindProcess, "store.Bucket", nil, nil},
	"net/http":               {kindProcess, "store.Bucket", nil, nil},
	"runtime":                {kindProcess, "nothing that differs between two runs", nil, nil},
	"runtime/debug":          {kindProcess, "nothing that differs between two runs", nil, nil},
	"weak":                   {kindWait, "an explicit free list", nil, nil},
	"iter":                   {kindGoroutine, "world.Go", strings.Fields("Pull Pull2"), nil},
	"math/rand":              {kindRandom, "seed.Stream or world.Rand", nil, strings.Fields("New NewSource NewZipf Rand Source Source64 Zipf")},
	"math/rand/v2":           {kindRandom, "seed.Stream or world.Rand", nil, strings.Fields("New NewPCG NewChaCha8 NewZipf Rand Source PCG ChaCha8 Zipf")},
	"crypto/rand":            {kindRandom, "seed.Stream or world.Rand", nil, nil},
	"hash/maphash":           {kindRandom, "xxh3, whose hash is the same everywhere", nil, nil},
	"golang.org/x/sync":      {kindWait, "world.Group or world.Semaphore", nil, nil},
	"golang.org/x/time/rate": {kindWait, "world.Sleep until the instant that is due", nil, nil},
}

// locks are the names of package sync that are a lock and no wait.
var locks = strings.Fields("Mutex RWMutex Locker") // read-only: names

// worldOnly looks for all that rule 7 forbids but the order of maps. Package sync/atomic is allowed: it never waits.
func worldOnly(p *pass) {
	for _, pkg := range p.tree.reach(simulated...) {
		for _, f := range pkg.Compiled() {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if kind, text := breach(pkg.Info, n); kind != "" && !excused(pkg.Path, kind) {
					p.at(n.Pos(), "%s", text)
				}
				return true
			})
		}
	}
}

// excused tells whether the table lets a package do this.
func excused(path, kind string) bool {
	return slices.ContainsFunc(excuses, func(e excuse) bool {
		return e.path == path && (slices.Contains(e.kinds, kind) || slices.Contains(e.kinds, kindAll))
	})
}

// breach says what rule 7 has against one node; the kind is empty when it has nothing.
func breach(info *types.Info, n ast.Node) (kind, text string) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return kindGoroutine, "go starts what no world knows; use world.Go"
	case *ast.SelectStmt:
		return kindChannel, "select parks where no world sees it; use world.Wait"
	case *ast.SendStmt, *ast.ChanType:
		return kindChannel, "a bare channel parks where no world sees it; use world.Queue or world.Latch"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return kindChannel, "a bare receive parks where no world sees it; use world.Queue or world.Latch"
		}
	case *ast.RangeStmt:
		if _, ok := under(info, n.X).(*types.Chan); ok {
			return kindChannel, "a range over a channel parks where no world sees it; use world.Queue"
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING && strings.Contains(n.Value, "%"+"p") {
			return kindAddress, "%p prints an address, which differs from run to run"
		}
	case *ast.Ident:
		return named(info.Uses[n])
	}
	return "", ""
}

// named says what rule 7 has against the use of a package's function, type or variable.
func named(o types.Object) (kind, text string) {
	if o == nil || o.Pkg() == nil || o.Parent() != o.Pkg().Scope() {
		return "", ""
	}
	path := o.Pkg().Path()
	if strings.HasPrefix(path, "golang.org/x/sync/") {
		path = "golang.org/x/sync"
	}
	row, ok := forbidden[path]
	_, constant := o.(*types.Const)
	switch {
	case !ok || constant:
		return "", ""
	case path == "sync" && slices.Contains(locks, o.Name()):
		return kindLock, fmt.Sprintf("sync.%s needs a reason in the table of internal/lint; use world.Mutex", o.Name())
	case slices.Contains(row.allowed, o.Name()):
		return "", ""
	case row.names != nil && !slices.Contains(row.names, o.Name()):
		return "", ""
	}
	return row.kind, fmt.Sprintf("%s.%s is forbidden where a simulated world runs; use %s", o.Pkg().Name(), o.Name(), row.instead)
}

// under is the underlying type of an expression, of a type parameter that of its constraint; nil if it is not known.
func under(info *types.Info, x ast.Expr) types.Type {
	t := info.TypeOf(x)
	if t == nil {
		return nil
	}
	if tp, ok := types.Unalias(t).(*types.TypeParam); ok {
		if c, ok := tp.Constraint().Underlying().(*types.Interface); ok && c.NumEmbeddeds() == 1 {
			if u, ok := c.EmbeddedType(0).(*types.Union); ok && u.Len() == 1 {
				return u.Term(0).Type().Underlying()
			}
			return c.EmbeddedType(0).Underlying()
		}
	}
	return t.Underlying()
}
