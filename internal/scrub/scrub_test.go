package scrub_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

func armNames() []string { return slices.Sorted(maps.Keys(arms)) }

// TestWhatARunLeavesIsClean: after a run with a rescale nothing is dangling, damaged or orphaned, all can be restored, and
// every backend holds the same elements.
func TestWhatARunLeavesIsClean(t *testing.T) {
	var want []scrub.StateLine
	for _, arm := range armNames() {
		b := bucketOf(t, left(t, arm))
		r, all := audit(t, b, scrub.Options{})
		if r.Verdict() != scrub.Clean || len(all) > 0 || !r.Marked || r.Unsure != "" || len(r.Checkpoints) != 2 || r.Read == 0 {
			t.Errorf("%s: %+v %+v", arm, r, all)
		}
		var states []scrub.StateLine
		inWorld(t, func(ctx context.Context, w world.World) error {
			o := scrub.StateOptions{Factories: catalog.Reader, SliceBytes: 8 << 10} // several turns a subtask
			err := scrub.Restore(ctx, w, b, r, o, nil)
			if err != nil {
				return err
			}
			l, err := r.Find("latest")
			if err != nil {
				return err
			}
			m, err := scrub.Open(ctx, w, b, l)
			if err == nil {
				states, err = scrub.States(ctx, w, b, m, o)
			}
			return err
		})
		slices.SortFunc(states, func(a, b scrub.StateLine) int { return strings.Compare(a.Operator+"/"+a.State, b.Operator+"/"+b.State) })
		if arm == "savepoints" && (len(r.Savepoints) != 2 || !r.Savepoints[0].Restored || !r.Savepoints[1].Restored) {
			t.Errorf("savepoints: %+v", r.Savepoints)
		}
		if r.Counts[scrub.Corrupt] > 0 || !r.Checkpoints[0].Restored || !r.Checkpoints[1].Restored {
			t.Errorf("%s: not all could be restored: %+v", arm, r.Checkpoints)
		}
		if want == nil {
			want = states
		}
		if !slices.Equal(states, want) || len(states) < 4 {
			t.Errorf("%s has %+v\nothers %+v", arm, states, want)
		}
	}
}

// TestMissingObjectsAreFound: without any one of the objects that a checkpoint needs, this one is dangling and nothing else.
func TestMissingObjectsAreFound(t *testing.T) {
	for _, arm := range armNames() {
		objects := left(t, arm)
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			class := scrub.ClassOf(key)
			if class == scrub.ClassCoord || class == scrub.ClassMarker {
				continue
			}
			r, all := audit(t, replaced(t, objects, key, nil), scrub.Options{Shallow: true})
			if class == scrub.ClassMeta || strings.Contains(key, "/meta-") { // what it alone named looks orphaned, and is not certain to be
				if r.Unsure == "" {
					t.Errorf("%s: without %s orphans are certain", arm, key)
				}
				all = slices.DeleteFunc(all, func(f scrub.Finding) bool { return f.Kind == scrub.Orphan || f.Kind == scrub.Loose })
			}
			if len(all) != 1 || all[0].Kind != scrub.Dangling || all[0].Key != key || len(all[0].Needed) == 0 || r.Verdict() != scrub.Damaged {
				t.Errorf("%s without %s: %+v", arm, key, all)
			}
		}
	}
}

// TestDamageIsFoundWhereItIs: a byte changed anywhere in an object, or an object cut short, is found with its key, and with
// an offset that is not behind the damage; also where the object is read in small pieces.
func TestDamageIsFoundWhereItIs(t *testing.T) {
	for _, arm := range armNames() {
		objects := left(t, arm)
		seen := map[string]int{}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			body, class := objects[key], scrub.ClassOf(key)
			if class == scrub.ClassCoord || class == scrub.ClassMarker || class == scrub.ClassMeta || strings.Contains(key, "/meta-") {
				continue
			}
			kind := string(class) + key[strings.LastIndex(key, ".")+1:]
			if seen[kind]++; seen[kind] > 3 && strings.Contains(kind, ".") || seen[kind] > 6 {
				continue
			}
			places := 12
			if testing.Short() {
				places = 3
			}
			for i := range places {
				at := i * (len(body) - 1) / (places - 1)
				o := scrub.Options{}
				if i%2 == 1 {
					o.Readers, o.Memory = 2, 2*512
				}
				_, all := audit(t, replaced(t, objects, key, flipped(body, at)), o)
				if len(all) != 1 || all[0].Kind != scrub.Corrupt || all[0].Key != key || all[0].Problem == "" {
					t.Fatalf("%s: %s with byte %d of %d changed: %+v", arm, key, at, len(body), all)
				}
				if off := all[0].Offset; off != nil && (*off > int64(at) && !footer(body, at) || *off < 0) {
					t.Errorf("%s: %s with byte %d of %d changed is damaged at %d: %s", arm, key, at, len(body), *off, all[0].Problem)
				}
			}
			_, all := audit(t, replaced(t, objects, key, body[:len(body)/2]), scrub.Options{})
			if len(all) != 1 || all[0].Kind != scrub.Corrupt || all[0].Offset == nil || *all[0].Offset != int64(len(body)/2) {
				t.Errorf("%s: %s cut in half: %+v", arm, key, all)
			}
		}
	}
}

// footer tells whether offset at lies where a format keeps what says where the rest is: such damage may show elsewhere.
func footer(body []byte, at int) bool { return at > len(body)-512 }

// TestTheLogIsReadAsFarAsItCan: a damaged or a missing entry is found, and what it may have said keeps orphans uncertain.
func TestTheLogIsReadAsFarAsItCan(t *testing.T) {
	objects := left(t, "heap-changelog")
	key := checkpoint.EntryKey(3)
	r, all := audit(t, replaced(t, objects, key, flipped(objects[key], 9)), scrub.Options{})
	if i := slices.IndexFunc(all, func(f scrub.Finding) bool { return f.Key == key }); i < 0 || all[i].Kind != scrub.Corrupt || r.Unsure == "" || len(r.Checkpoints) == 0 {
		t.Errorf("a damaged entry: %+v %+v", r, all)
	}
	r, all = audit(t, replaced(t, objects, key, nil), scrub.Options{})
	if i := slices.IndexFunc(all, func(f scrub.Finding) bool { return f.Key == key }); i < 0 || all[i].Kind != scrub.Dangling || r.Unsure == "" {
		t.Errorf("a missing entry: %+v %+v", r, all)
	}
	meta := r.Checkpoints[len(r.Checkpoints)-1].Metadata
	r, all = audit(t, replaced(t, objects, meta, flipped(objects[meta], 20)), scrub.Options{})
	if i := slices.IndexFunc(all, func(f scrub.Finding) bool { return f.Key == meta }); i < 0 || all[i].Kind != scrub.Corrupt || r.Unsure == "" {
		t.Errorf("damaged metadata: %+v %+v", r, all)
	}
}

// TestMetadataThatContradictsItselfIsFound: key groups that nobody has, a log with a gap, a part beyond its object, and a part
// that its segment does not have.
func TestMetadataThatContradictsItselfIsFound(t *testing.T) {
	objects := left(t, "heap-changelog")
	r, _ := audit(t, bucketOf(t, objects), scrub.Options{Shallow: true})
	key := r.Checkpoints[1].Metadata
	for name, change := range map[string]func(h *backend.StateHandle){
		"the key groups of operator": func(h *backend.StateHandle) { h.Range.To-- },
		"which has":                  func(h *backend.StateHandle) { h.Delta[0].Length = h.Delta[0].Bytes + 1 },
		"no section ends":            func(h *backend.StateHandle) { h.Delta[0].Length-- },
		"this is":                    func(h *backend.StateHandle) { h.Delta[0].Log = "9/other" },
		"and then from": func(h *backend.StateHandle) {
			next := h.Delta[len(h.Delta)-1]
			next.From += 5
			h.Delta = append(h.Delta, next)
		},
	} {
		m, err := checkpoint.Decode(objects[key])
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(m.Subtasks, func(s checkpoint.SubtaskState) bool { return s.Keyed != nil && len(s.Keyed.Delta) > 0 })
		change(m.Subtasks[i].Keyed)
		_, all := audit(t, replaced(t, objects, key, checkpoint.Encode(m)), scrub.Options{})
		if !slices.ContainsFunc(all, func(f scrub.Finding) bool { return f.Kind == scrub.Corrupt && strings.Contains(f.Problem, name) }) {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// littered adds one orphan of each kind.
func littered(t *testing.T, b *store.Mem) {
	t.Helper()
	for _, key := range []string{"base/1/count-0/900", "log/1/worker-0/99.seg", "base/77/count-1/0.sst", "meta/5000-1", "stray", "savepoint/400/count-0/0"} {
		put(t, b, key, []byte("left "+key))
	}
	if _, err := b.BeginUpload(t.Context(), "base/1/count-0/901", []byte("part")); err != nil {
		t.Fatal(err)
	}
}

// TestOrphansAreTold: by class, attempt and cause; savepoints that failed are no orphans, and strange objects are foreign.
func TestOrphansAreTold(t *testing.T) {
	b := bucketOf(t, left(t, "heap-changelog"))
	littered(t, b)
	r, all := audit(t, b, scrub.Options{})
	var got []string
	for _, f := range all {
		got = append(got, string(f.Kind)+" "+f.Key+": "+f.Cause)
	}
	slices.Sort(got)
	want := []string{
		"foreign stray: no key of a run",
		"loose savepoint/400/count-0/0: of a savepoint that did not complete",
		"orphan base/1/count-0/900: left by an earlier attempt",
		"orphan base/77/count-1/0.sst: left by the newest attempt",
		"orphan log/1/worker-0/99.seg: left by an earlier attempt",
		"orphan meta/5000-1: metadata of a checkpoint that did not complete",
		"upload base/1/count-0/901: upload that was never ended",
	}
	if !slices.Equal(got, want) || r.Verdict() != scrub.Litter {
		t.Errorf("found %q\nwant %q", got, want)
	}
	if len(r.Orphans) != 6 || r.Counts[scrub.Orphan] != 4 {
		t.Errorf("by cause: %+v, %v", r.Orphans, r.Counts)
	}
}

// TestSavepointsAreTheUsers: the objects of one are needed like those of a checkpoint; without any it was removed by its owner.
func TestSavepointsAreTheUsers(t *testing.T) {
	objects := left(t, "heap")
	r, _ := audit(t, bucketOf(t, objects), scrub.Options{Shallow: true})
	m, err := checkpoint.Decode(objects[r.Checkpoints[1].Metadata])
	if err != nil {
		t.Fatal(err)
	}
	with := maps.Clone(objects)
	m.ID = 500
	for i := range m.Subtasks {
		h := m.Subtasks[i].Keyed
		if h == nil {
			continue
		}
		for j := range h.Base {
			ref := &h.Base[j]
			body := objects[ref.Key]
			ref.Key = checkpoint.SavepointObject(500, m.Subtasks[i].Operator+"-"+string(rune('0'+m.Subtasks[i].Index)), uint64(j))
			with[ref.Key] = body
		}
	}
	m.Term = 9
	with[checkpoint.SavepointMetadataKey(500, 9)] = checkpoint.Encode(m)
	e := checkpoint.Entry{Seq: r.Log.Entries + 1, Kind: checkpoint.Savepoint, Term: 9, Owner: "c", ID: 500, Metadata: checkpoint.SavepointMetadataKey(500, 9)}
	with[checkpoint.EntryKey(e.Seq)] = checkpoint.EncodeEntry(e)

	r, all := audit(t, bucketOf(t, with), scrub.Options{})
	if r.Verdict() != scrub.Clean || len(r.Savepoints) != 1 || r.Savepoints[0].Objects == 0 {
		t.Fatalf("with a savepoint: %+v %+v", r, all)
	}
	part := ""
	for key := range with {
		if strings.HasPrefix(key, "savepoint/500/count") {
			part = max(part, key)
		}
	}
	_, all = audit(t, replaced(t, with, part, nil), scrub.Options{})
	if len(all) != 1 || all[0].Kind != scrub.Dangling || !slices.Equal(all[0].Needed, []string{"savepoint 500"}) {
		t.Errorf("without %s: %+v", part, all)
	}
	maps.DeleteFunc(with, func(key string, _ []byte) bool { return strings.HasPrefix(key, "savepoint/") })
	r, all = audit(t, bucketOf(t, with), scrub.Options{})
	if r.Verdict() != scrub.Clean || len(all) > 0 || !r.Savepoints[0].Removed {
		t.Errorf("without the savepoint: %+v %+v", r, all)
	}
}

// TestElementsOfAKeyGroup: those of all key groups together are those that were counted, and what is not there is an error.
func TestElementsOfAKeyGroup(t *testing.T) {
	for _, arm := range armNames() {
		b := bucketOf(t, left(t, arm))
		r, _ := audit(t, b, scrub.Options{Shallow: true})
		o := scrub.StateOptions{Factories: catalog.Reader}
		inWorld(t, func(ctx context.Context, w world.World) error {
			m, err := scrub.Open(ctx, w, b, &r.Checkpoints[1])
			if err != nil {
				return err
			}
			states, err := scrub.States(ctx, w, b, m, o)
			if err != nil {
				return err
			}
			for _, s := range states {
				n := int64(0)
				for g := range m.MaxParallelism {
					at := scrub.Selection{Operator: s.Operator, State: s.State, Group: keygroup.ID(g)}
					if err := scrub.Elements(ctx, w, b, m, at, o, func(scrub.Element) bool { n++; return true }); err != nil {
						return err
					}
				}
				if n != s.Elements {
					t.Errorf("%s: %s/%s has %d elements, %d by key group", arm, s.Operator, s.State, s.Elements, n)
				}
			}
			for _, at := range []scrub.Selection{{"none", "value", 0}, {"count", "none", 0}, {"count", "value", 8}} {
				if err := scrub.Elements(ctx, w, b, m, at, o, nil); !errors.Is(err, scrub.ErrState) {
					t.Errorf("%s: %+v: %v", arm, at, err)
				}
			}
			return nil
		})
	}
}

// TestNothingIsNoStore: neither an empty bucket nor one with other objects is taken for a clean store.
func TestNothingIsNoStore(t *testing.T) {
	b := store.NewMem()
	inWorld(t, func(ctx context.Context, w world.World) error {
		if _, err := scrub.Audit(ctx, w, b, scrub.Options{}); !errors.Is(err, scrub.ErrNothing) {
			t.Errorf("an empty bucket: %v", err)
		}
		return nil
	})
	put(t, b, "docs/a", nil)
	put(t, b, "x/run", []byte("run x\n"))
	put(t, b, "y/coord/000000000001", nil)
	put(t, b, "z", nil)
	if got, err := scrub.Prefixes(t.Context(), b); err != nil || !slices.Equal(got, []string{"x/", "y/"}) {
		t.Errorf("prefixes %q, %v", got, err)
	}
}

// now is the time of all audits here.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// TestAnAuditNoticesALiveJob: when the coordinator log goes on during the audit, the report says so.
func TestAnAuditNoticesALiveJob(t *testing.T) {
	mem := bucketOf(t, left(t, "heap"))
	var r *scrub.Report
	inWorld(t, func(ctx context.Context, w world.World) (err error) {
		late := false
		put(t, mem, "stray", nil)
		r, err = scrub.Audit(ctx, w, mem, scrub.Options{Formats: catalog.Formats(), Found: func(scrub.Finding) error {
			if late {
				return nil
			}
			late = true
			e := checkpoint.Entry{Seq: entries(t, mem) + 1, Kind: checkpoint.Takeover, Term: 2, Owner: "somebody"}
			return mem.Put(ctx, checkpoint.EntryKey(e.Seq), checkpoint.EncodeEntry(e), store.PutOptions{})
		}})
		return err
	})
	if !r.Moved || r.Unsure == "" {
		t.Errorf("the log went on: %+v", r)
	}
}
