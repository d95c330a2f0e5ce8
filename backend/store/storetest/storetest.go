// Package storetest is the conformance suite of store.Bucket: what every store must do, run against each of them.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"statebench.dev/bench/backend/store"
)

// Options say what differs between stores.
type Options struct {
	// Strict: an object is never replaced by other content.
	Strict bool
	// Taken is the part of store.MaxKey that is not for keys, because a prefix is before them.
	Taken int
	// Big is the size of the large object; 0 means 64 MiB.
	Big int
	// Races and Racers are how often how many conditional puts race for a key; 0 means 100 and 8.
	Races, Racers int
	// Lacks tells which of OddKeys the store refuses, or does not list where all the others are; nil: none.
	Lacks func(key string) bool
	// AbortsAgain: to abort an upload once more is no error.
	AbortsAgain bool
}

// Run runs the suite. open returns an empty bucket that the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Bucket, o Options) {
	if o.Big == 0 {
		o.Big = 64 << 20
	}
	if o.Races == 0 {
		o.Races, o.Racers = 100, 8
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Bucket, Options)
	}{
		{"odd keys", testOddKeys},
		{"unusable keys", testUnusableKeys},
		{"missing objects", testMissing},
		{"bodies and ranges", testBodies},
		{"large object", testLarge},
		{"replace", testReplace},
		{"create if absent", testCreate},
		{"listing", testListing},
		{"uploads", testUploads},
		{"cancel", testCancel},
		{"concurrency", testConcurrency},
		{"injector reach", testReach},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t)
			c.test(t, b, o)
			if err := b.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// OddKeys returns usable keys that have broken stores: prefixes of each other, empty and dotted segments, escapes,
// controls, long segments, neighbours of the slash in byte order. They are in random but fixed order.
func OddKeys() []string {
	long := strings.Repeat("x", 300)
	keys := []string{
		"a", "a/", "a/b", "a/b/c", "a/b/", "a//b", "a///", "/a", "//", "a!", "a!b", "a-b", "a.b", "a0", "a~",
		".", "..", "../a", "a/../b", "a/./b", "../../etc/passwd", "...", ".o", "a.o", "a.d", "a.d/b", ".c",
		"%", "%2F", "a%2Fb", "a%2fb", "%25", "%zz", "a+b", "a b", " a", "a ", "a&b=c?d#e", "?", "#",
		"ü", "ä/€", "日本/語", "e\u0301", "é", "😀", "\uFFFD", "a\u2028b",
		"tab\there", "line\nbreak", "carriage\rreturn", "bell\x07", "nul\x00byte", "del\x7f",
		`back\slash`, `"quoted"`, "'", "<xml>&amp;</xml>", "A", "B/a", "CON", "nul.txt", "$(x)", "`x`", "*", "[a]", "{}", "|", ":",
		long, long + "/" + long, long + "y", long[:79], long[:80], long[:80] + "/", long[:80] + "/b", long[:80] + "!", long[:81], long[:160],
		strings.Repeat("k", store.MaxKey), strings.Repeat("é", store.MaxKey/2), strings.Repeat("d/", 12),
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// Keys lists b, checks that the order is right and returns the keys.
func Keys(t *testing.T, b store.Bucket, prefix, startAfter string) []string {
	t.Helper()
	keys := []string{}
	for a, err := range b.List(t.Context(), prefix, startAfter) {
		if err != nil {
			t.Fatalf("List(%q, %q): %v", prefix, startAfter, err)
		}
		keys = append(keys, a.Key)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			t.Fatalf("List(%q, %q): %q comes before %q", prefix, startAfter, keys[i-1], keys[i])
		}
	}
	return keys
}

func mustPut(t *testing.T, b store.Bucket, key string, body []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, body, store.PutOptions{}); err != nil {
		t.Fatalf("Put(%.80q): %v", key, err)
	}
}

func wantBody(t *testing.T, b store.Bucket, key string, want []byte) {
	t.Helper()
	got, err := b.Get(t.Context(), key)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("Get(%.80q) = %d bytes %.40q, %v; want %d bytes %.40q", key, len(got), got, err, len(want), want)
	}
}

func want(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got error %v, want %v", what, err, kind)
	}
}

func testOddKeys(t *testing.T, b store.Bucket, o Options) {
	keys := slices.DeleteFunc(OddKeys(), func(key string) bool {
		return len(key) > store.MaxKey-o.Taken || o.Lacks != nil && o.Lacks(key)
	})
	for _, key := range keys {
		mustPut(t, b, key, []byte("body of "+key))
	}
	for _, key := range keys {
		wantBody(t, b, key, []byte("body of "+key))
		a, err := b.Stat(t.Context(), key)
		if err != nil || a.Key != key || a.Size != int64(len("body of "+key)) {
			t.Errorf("Stat(%.80q) = %+v, %v", key, a, err)
		}
	}
	slices.Sort(keys)
	if got := Keys(t, b, "", ""); !slices.Equal(got, keys) {
		t.Fatalf("List: got %d keys, want %d:\n%.60q\n%.60q", len(got), len(keys), got, keys)
	}
	for i, key := range keys {
		if got := Keys(t, b, "", key); !slices.Equal(got, keys[i+1:]) {
			t.Errorf("List after %.80q: got %d keys, want %d", key, len(got), len(keys)-i-1)
		}
		var under []string
		for _, k := range keys {
			if strings.HasPrefix(k, key) {
				under = append(under, k)
			}
		}
		if got := Keys(t, b, key, ""); !slices.Equal(got, under) {
			t.Errorf("List under %.80q: got %.80q, want %.80q", key, got, under)
		}
	}
	for i, d := range b.Delete(t.Context(), keys) {
		if d.Key != keys[i] || d.Err != nil {
			t.Errorf("Delete: answer %d is %+v, want that of %.80q", i, d, keys[i])
		}
	}
	if got := Keys(t, b, "", ""); len(got) != 0 {
		t.Errorf("List after Delete: %.80q", got)
	}
}

func testUnusableKeys(t *testing.T, b store.Bucket, _ Options) {
	for _, key := range []string{"", "a\xff", strings.Repeat("k", store.MaxKey+1)} {
		want(t, "Put", b.Put(t.Context(), key, nil, store.PutOptions{}), store.ErrKey)
		_, err := b.Get(t.Context(), key)
		want(t, "Get", err, store.ErrKey)
		_, err = b.GetRange(t.Context(), key, 0, 1)
		want(t, "GetRange", err, store.ErrKey)
		_, err = b.Stat(t.Context(), key)
		want(t, "Stat", err, store.ErrKey)
		mustPut(t, b, "kept", []byte("x"))
		got := b.Delete(t.Context(), []string{"absent", key})
		if len(got) != 2 || got[0].Err != nil {
			t.Fatalf("Delete: %+v", got)
		}
		want(t, "Delete", got[1].Err, store.ErrKey)
		wantBody(t, b, "kept", []byte("x"))
	}
}

func testMissing(t *testing.T, b store.Bucket, _ Options) {
	mustPut(t, b, "dir/object", []byte("x"))
	for _, key := range []string{"absent", "dir", "dir/", "dir/object/"} {
		_, err := b.Get(t.Context(), key)
		want(t, "Get", err, store.ErrNotExist)
		_, err = b.GetRange(t.Context(), key, 1, 2)
		want(t, "GetRange", err, store.ErrNotExist)
		_, err = b.GetRange(t.Context(), key, 0, 0)
		want(t, "GetRange of nothing", err, store.ErrNotExist)
		_, err = b.Stat(t.Context(), key)
		want(t, "Stat", err, store.ErrNotExist)
		if got := b.Delete(t.Context(), []string{key, key}); len(got) != 2 || got[0].Err != nil || got[1].Err != nil {
			t.Errorf("Delete(%q twice): %+v", key, got)
		}
	}
	wantBody(t, b, "dir/object", []byte("x"))
	if got := b.Delete(t.Context(), nil); len(got) != 0 {
		t.Errorf("Delete of nothing: %+v", got)
	}
	if got := Keys(t, b, "no/such/prefix", ""); len(got) != 0 {
		t.Errorf("List: %q", got)
	}
}

func testBodies(t *testing.T, b store.Bucket, _ Options) {
	mustPut(t, b, "empty", nil)
	wantBody(t, b, "empty", []byte{})
	body := []byte("0123456789")
	mustPut(t, b, "digits", body)
	body[0] = 'X' // the store has its own copy
	wantBody(t, b, "digits", []byte("0123456789"))
	got, _ := b.Get(t.Context(), "digits")
	got[0] = 'Y' // and so has the caller
	wantBody(t, b, "digits", []byte("0123456789"))
	for _, c := range []struct {
		key    string
		off, n int64
		want   string
	}{
		{"digits", 0, 10, "0123456789"}, {"digits", 0, 1, "0"}, {"digits", 9, 1, "9"}, {"digits", 3, 4, "3456"}, {"digits", 0, 0, ""},
		{"digits", 10, 0, ""}, {"digits", 8, 100, "89"}, {"digits", 10, 5, ""}, {"digits", 1000, 5, ""}, {"digits", 5, 1 << 62, "56789"},
		{"digits", 1 << 62, 1 << 62, ""}, {"empty", 0, 10, ""}, {"empty", 0, 0, ""}, {"empty", 5, 5, ""},
	} {
		got, err := b.GetRange(t.Context(), c.key, c.off, c.n)
		if err != nil || string(got) != c.want {
			t.Errorf("GetRange(%q, %d, %d) = %q, %v; want %q", c.key, c.off, c.n, got, err, c.want)
		}
	}
}

// Pattern returns n bytes that depend on seed, cheap to make and to tell apart.
func Pattern(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	body := make([]byte, n)
	_, _ = r.Read(body) // it never fails
	return body
}

func testLarge(t *testing.T, b store.Bucket, o Options) {
	body := Pattern(7, o.Big+1)
	mustPut(t, b, "large", body)
	wantBody(t, b, "large", body)
	for _, off := range []int{0, 5<<20 - 1, 16<<20 - 3, o.Big / 2, o.Big - 7} {
		got, err := b.GetRange(t.Context(), "large", int64(off), 1000)
		if end := min(off+1000, len(body)); err != nil || off < len(body) && !bytes.Equal(got, body[off:end]) {
			t.Errorf("GetRange at %d: %d bytes, %v", off, len(got), err)
		}
	}
	if err := b.Put(t.Context(), "large-once", body, store.PutOptions{IfNotExist: true}); err != nil {
		t.Errorf("conditional Put: %v", err)
	}
	want(t, "conditional Put of a taken key", b.Put(t.Context(), "large", body, store.PutOptions{IfNotExist: true}), store.ErrPrecondition)
	if up, err := b.Uploads(t.Context(), ""); err != nil || len(up) != 0 {
		t.Errorf("Uploads: %v, %v", up, err)
	}
}

func testReplace(t *testing.T, b store.Bucket, o Options) {
	mustPut(t, b, "k", []byte("one"))
	mustPut(t, b, "k", []byte("one"))
	err := b.Put(t.Context(), "k", []byte("other"), store.PutOptions{})
	if o.Strict {
		want(t, "Put of other content", err, store.ErrOverwrite)
		wantBody(t, b, "k", []byte("one"))
	} else {
		wantBody(t, b, "k", []byte("other"))
	}
	b.Delete(t.Context(), []string{"k"})
	mustPut(t, b, "k", []byte("third"))
	wantBody(t, b, "k", []byte("third"))
}

func testCreate(t *testing.T, b store.Bucket, o Options) {
	for race := range o.Races {
		key := fmt.Sprintf("coord/%d", race)
		errs := make([]error, o.Racers)
		var wg sync.WaitGroup
		for i := range o.Racers {
			wg.Go(func() {
				errs[i] = b.Put(t.Context(), key, fmt.Appendf(nil, "racer %d", i), store.PutOptions{IfNotExist: true})
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("race %d: both %d and %d won", race, winner, i)
			case err == nil:
				winner = i
			default:
				want(t, "loser of a race", err, store.ErrPrecondition)
			}
		}
		if winner < 0 {
			t.Fatalf("race %d: nobody won: %v", race, errs)
		}
		wantBody(t, b, key, fmt.Appendf(nil, "racer %d", winner))
	}
}

func testListing(t *testing.T, b store.Bucket, _ Options) {
	const n, workers = 2500, 8
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("log/%d/%04d.seg", i%3, i)
	}
	each(t, workers, n, func(i int) error {
		return b.Put(t.Context(), keys[i], []byte(keys[i]), store.PutOptions{})
	})
	mustPut(t, b, "loh", nil)
	mustPut(t, b, "lof/z", nil)
	sort.Strings(keys)
	if got := Keys(t, b, "log/", ""); !slices.Equal(got, keys) {
		t.Fatalf("List: %d keys, want %d", len(got), len(keys))
	}
	for _, i := range []int{0, 998, 999, 1000, 1999, n - 2, n - 1} {
		if got := Keys(t, b, "log/", keys[i]); !slices.Equal(got, keys[i+1:]) {
			t.Errorf("List after %q: %d keys, want %d", keys[i], len(got), n-i-1)
		}
	}
	if got := Keys(t, b, "log/1/", "log/0/zzz"); len(got) != 833 {
		t.Errorf("List(log/1/): %d keys", len(got))
	}
	if got := Keys(t, b, "log/", "zzz"); len(got) != 0 {
		t.Errorf("List after the end: %d keys", len(got))
	}
	if got := Keys(t, b, "log/", "a"); len(got) != n {
		t.Errorf("List after a key before the prefix: %d keys", len(got))
	}
	seen := 0
	for a, err := range b.List(t.Context(), "log/", "") {
		if err != nil || a.Size != int64(len(a.Key)) {
			t.Fatalf("List: %+v, %v", a, err)
		}
		if seen++; seen == 1500 {
			break
		}
	}
	for _, d := range b.Delete(t.Context(), append(slices.Clone(keys), "log/absent")) {
		if d.Err != nil {
			t.Fatalf("Delete: %+v", d)
		}
	}
	if got := Keys(t, b, "", ""); !slices.Equal(got, []string{"lof/z", "loh"}) {
		t.Errorf("List after Delete: %q", got)
	}
}

// each runs f(0..n-1) on workers goroutines.
func each(t *testing.T, workers, n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func testUploads(t *testing.T, b store.Bucket, o Options) {
	if up, err := b.Uploads(t.Context(), ""); err != nil || len(up) != 0 {
		t.Fatalf("Uploads of an empty bucket: %v, %v", up, err)
	}
	want(t, "AbortUpload of none", b.AbortUpload(t.Context(), store.Upload{Key: "k", ID: "0"}), store.ErrNotExist)
	m, ok := b.(store.MultipartBeginner)
	if !ok {
		return
	}
	var open []store.Upload
	for _, key := range []string{"base/1", "base/1", "base/ü &<", "log/1"} {
		u, err := m.BeginUpload(t.Context(), key, []byte("part"))
		if err != nil {
			t.Fatalf("BeginUpload(%q): %v", key, err)
		}
		open = append(open, u)
	}
	if got := Keys(t, b, "", ""); len(got) != 0 {
		t.Errorf("incomplete uploads are visible: %q", got)
	}
	_, err := b.Get(t.Context(), "base/1")
	want(t, "Get of an incomplete upload", err, store.ErrNotExist)
	same := func(x, y store.Upload) bool { return x.Key == y.Key && x.ID == y.ID }
	if got, err := b.Uploads(t.Context(), "base/"); err != nil || !slices.EqualFunc(got, open[:3], same) {
		t.Errorf("Uploads(base/) = %v, %v; want %v", got, err, open[:3])
	}
	for _, u := range open {
		if err := b.AbortUpload(t.Context(), u); err != nil {
			t.Errorf("AbortUpload(%v): %v", u, err)
		}
	}
	again := store.ErrNotExist
	if o.AbortsAgain {
		again = nil
	}
	want(t, "AbortUpload again", b.AbortUpload(t.Context(), open[0]), again)
	if got, err := b.Uploads(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("Uploads after AbortUpload: %v, %v", got, err)
	}
}

func testCancel(t *testing.T, b store.Bucket, o Options) {
	mustPut(t, b, "k", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, "Put", b.Put(ctx, "new", []byte("x"), store.PutOptions{}), context.Canceled)
	_, err := b.Get(ctx, "k")
	want(t, "Get", err, context.Canceled)
	_, err = b.GetRange(ctx, "k", 0, 1)
	want(t, "GetRange", err, context.Canceled)
	_, err = b.Stat(ctx, "k")
	want(t, "Stat", err, context.Canceled)
	_, err = b.Uploads(ctx, "")
	want(t, "Uploads", err, context.Canceled)
	got := b.Delete(ctx, []string{"k", "l"})
	if len(got) != 2 || got[0].Key != "k" || got[1].Key != "l" {
		t.Fatalf("Delete: %+v", got)
	}
	want(t, "Delete", got[1].Err, context.Canceled)
	n := 0
	for _, err := range b.List(ctx, "", "") {
		n++
		want(t, "List", err, context.Canceled)
	}
	if n != 1 {
		t.Errorf("List yielded %d times", n)
	}
	wantBody(t, b, "k", []byte("x"))

	// A put that is cancelled on its way is all there or not at all, and leaves no parts.
	body := Pattern(9, o.Big/2)
	ctx, cancel = context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = b.Put(t.Context(), "pace", body[:len(body)/4], store.PutOptions{}) // takes a part of the other one's time
		cancel()
	})
	err = b.Put(ctx, "big", body, store.PutOptions{})
	wg.Wait()
	if err != nil {
		want(t, "cancelled Put", err, context.Canceled)
	}
	if there, gerr := b.Get(t.Context(), "big"); gerr == nil {
		if !bytes.Equal(there, body) {
			t.Errorf("cancelled Put left %d of %d bytes", len(there), len(body))
		}
	} else if want(t, "Get after a cancelled Put", gerr, store.ErrNotExist); err == nil {
		t.Error("Put succeeded and the object is not there")
	}
	if up, err := b.Uploads(t.Context(), ""); err != nil || len(up) != 0 {
		t.Errorf("cancelled Put left uploads: %v, %v", up, err)
	}
}

func testConcurrency(t *testing.T, b store.Bucket, _ Options) {
	each(t, 8, 200, func(i int) error {
		key := fmt.Sprintf("dir%d/%d", i%4, i)
		body := Pattern(uint64(i), 100*i)
		if err := b.Put(t.Context(), key, body, store.PutOptions{}); err != nil {
			return err
		}
		got, err := b.Get(t.Context(), key)
		if err != nil || !bytes.Equal(got, body) {
			return fmt.Errorf("get %q: %d bytes, want %d: %w", key, len(got), len(body), err)
		}
		for _, err := range b.List(t.Context(), fmt.Sprintf("dir%d/", i%4), "") {
			if err != nil {
				return err
			}
		}
		return b.Delete(t.Context(), []string{key})[0].Err
	})
	if got := Keys(t, b, "", ""); len(got) != 0 {
		t.Errorf("left over: %q", got)
	}
}
