// Package checkpoint is what the coordinator knows about checkpoints and keeps in the store: their metadata, the
// coordinator log that decides which of them completed and who leads, and the registry of the objects they share.
//
// A checkpoint's metadata object is written first; the checkpoint is completed once the coordinator log says so, and not
// before. The log consists of objects that are created only if absent, so of two leaders one loses a sequence number,
// reads what stands there and steps down.
//
// Steps of use: OpenLog, Log.TakeOver, Log.Reserve; for each checkpoint Registry.Register as acknowledgements come in, a put of
// Encode(metadata) under MetadataKey, Log.Complete, CompletedStore.Add and Registry.Complete, Log.Drop for what was subsumed,
// and last the deletion of what Registry.UnregisterUnused returns. After a restart of the leader OpenLog finds the retained
// checkpoints, Read their metadata, and Registry.Complete, once for each, fills the registry again.
package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"statebench.dev/bench/backend"
)

// Prefixes of the keys in a run's part of the store.
const (
	LogPrefix      = "log/"   // log/<attempt>/...: segments of changelogs
	BasePrefix     = "base/"  // base/<attempt>/...: snapshots of nested backends
	MetadataPrefix = "meta/"  // meta/<id>-<term>
	EntryPrefix    = "coord/" // coord/<sequence>: the coordinator log

	SavepointPrefix = backend.SavepointPrefix // savepoint/<id>/...: all of a savepoint, savepoint/<id>/meta-<term> its metadata
)

// Errors of this package; compare with errors.Is.
var (
	// ErrFenced: another leader took a sequence number of the coordinator log; the caller must step down.
	ErrFenced = errors.New("another leader wrote to the coordinator log")
	// ErrVersion: the object was written by a newer version of this program.
	ErrVersion = errors.New("unknown format version")
)

// MetadataKey is where the metadata of checkpoint id lies when the leader of the given term wrote it.
func MetadataKey(id, term uint64) string {
	return MetadataPrefix + strconv.FormatUint(id, 10) + "-" + strconv.FormatUint(term, 10)
}

// ParseMetadataKey is the reverse of MetadataKey.
func ParseMetadataKey(key string) (id, term uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, MetadataPrefix)
	a, b, dash := strings.Cut(rest, "-")
	id, err := strconv.ParseUint(a, 10, 64)
	term, terr := strconv.ParseUint(b, 10, 64)
	return id, term, ok && dash && err == nil && terr == nil && MetadataKey(id, term) == key
}

// SavepointFolder begins the keys of all objects of savepoint id.
func SavepointFolder(id uint64) string { return SavepointPrefix + strconv.FormatUint(id, 10) + "/" }

// SavepointObject is where the n-th object lies that a subtask puts for savepoint id; backends may add an extension.
func SavepointObject(id uint64, subtask string, n uint64) string {
	return SavepointFolder(id) + subtask + "/" + strconv.FormatUint(n, 10)
}

// SavepointMetadataKey is where the metadata of savepoint id lies when the leader of the given term wrote it.
func SavepointMetadataKey(id, term uint64) string {
	return SavepointFolder(id) + "meta-" + strconv.FormatUint(term, 10)
}

// SavepointOf is the savepoint that the object at key belongs to.
func SavepointOf(key string) (id uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, SavepointPrefix)
	number, _, slash := strings.Cut(rest, "/")
	id, err := strconv.ParseUint(number, 10, 64)
	return id, ok && slash && err == nil
}

// EntryKey is where entry seq of the coordinator log lies; keys sort as sequence numbers do.
func EntryKey(seq uint64) string { return fmt.Sprintf("%s%012d", EntryPrefix, seq) }

// ParseEntryKey is the reverse of EntryKey. Whatever else lies under EntryPrefix is no part of the log: markers that
// consoles make for folders, say.
func ParseEntryKey(key string) (seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, EntryPrefix)
	seq, err := strconv.ParseUint(rest, 10, 64)
	return seq, ok && err == nil && EntryKey(seq) == key
}

// AttemptPrefixes are the prefixes under which one attempt writes.
func AttemptPrefixes(attempt uint64) []string {
	a := strconv.FormatUint(attempt, 10) + "/"
	return []string{LogPrefix + a, BasePrefix + a}
}
