package scenario

import (
	"fmt"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// backendLSM is the backend that the block lsm is for.
const backendLSM = "lsm"

// lsmDefaults are the sizes that the backend has where nothing is said.
func lsmDefaults() plan.LSM {
	return plan.LSM{Cache: 64 << 20, Memtable: 16 << 20, Rows: 64 << 20, Files: 8 << 20, Compression: "snappy", Restore: plan.RestoreDownload}
}

func lsmKeys() []key {
	return []key{
		{name: "cache", kind: "size", about: "block cache of a worker"},
		{name: "memtable", kind: "size", about: "changes of a subtask that are not written to tables"},
		{name: "rows", kind: "size", about: "current values of a subtask that are kept in memory in front of the tree"},
		{name: "files", kind: "size", about: "what table files aim at"},
		{name: "compression", kind: "word", words: plan.Compressions(), about: "of tables"},
		{name: "restore", kind: "word", words: plan.Restores(), about: "whether all state is on the worker before the job goes on"},
	}
}

// lsm reads an lsm block of o on top of the outer level's values.
func (l *loader) lsm(o object, owner string, c *plan.LSM) {
	f, ok := o.find("lsm")
	if !ok {
		return
	}
	b, ok := l.object(f.value, f.path, "lsm", "lsm of "+owner)
	if !ok {
		return
	}
	read(b, "cache", &c.Cache, positiveBytes)
	read(b, "memtable", &c.Memtable, positiveBytes)
	read(b, "rows", &c.Rows, positiveBytes)
	read(b, "files", &c.Files, positiveBytes)
	read(b, "compression", &c.Compression, oneOf(plan.Compressions(), nil))
	read(b, "restore", &c.Restore, oneOf(plan.Restores(), nil))
}

// armLSM reads an arm's block; other backends have none.
func (l *loader) armLSM(o object, arm *Arm) {
	l.lsm(o, "arm "+arm.Name, &arm.Backend.LSM)
	if arm.Backend.Name == backendLSM {
		return
	}
	arm.Backend.LSM = plan.LSM{}
	if f, ok := o.find("lsm"); ok && arm.Backend.Name != "" {
		l.fail(f.where, "arm %s has backend %s: lsm is for backend %s", arm.Name, arm.Backend.Name, backendLSM)
	}
}

func lsmText(c plan.LSM) string {
	if c == lsmDefaults() || c == (plan.LSM{}) {
		return ""
	}
	size := func(n int64) registry.Bytes { return registry.Bytes(n) }
	return fmt.Sprintf(", cache %s, memtable %s, rows %s, files %s, compression %s, restore %s", size(c.Cache), size(c.Memtable), size(c.Rows), size(c.Files), c.Compression, c.Restore)
}

// lsm writes the block of an arm that has one.
func (w *writer) lsm(c plan.LSM, set func(depth int, key, text, path string)) {
	if c == (plan.LSM{}) {
		return
	}
	w.line(2, "lsm:", "")
	size := func(key string, n int64) { set(3, key, registry.Bytes(n).String(), "lsm."+key) }
	size("cache", c.Cache)
	size("memtable", c.Memtable)
	size("rows", c.Rows)
	size("files", c.Files)
	set(3, "compression", c.Compression, "lsm.compression")
	set(3, "restore", c.Restore, "lsm.restore")
}
