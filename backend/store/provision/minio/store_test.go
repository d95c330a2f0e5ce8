package minio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/storetest"
)

func TestMinIOIsAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes half a minute")
	}
	s := startServer(t)
	n := 0
	storetest.Run(t, func(t *testing.T) store.Bucket {
		n++
		return bucketOf(t, s, fmt.Sprintf("suite-%d", n))
	}, storetest.Options{Big: 40 << 20, Races: 10, Racers: 8, Lacks: lacks, AbortsAgain: true})
	b := bucketOf(t, s, "refused")
	for _, key := range storetest.OddKeys() {
		if key[0] == '/' && key != "//" {
			continue // taken for the key without the slash
		}
		if err := b.Put(t.Context(), key, nil, store.PutOptions{}); refuses(key) != errors.Is(err, store.ErrKey) {
			t.Errorf("Put(%.80q): %v", key, err)
		}
	}
}

// lacks tells which of the odd keys MinIO refuses, and which it does not list, since they lie below another that is one.
func lacks(key string) bool {
	below := slices.ContainsFunc(storetest.OddKeys(), func(of string) bool {
		return len(of) < len(key) && !refuses(of) && strings.HasPrefix(key, strings.TrimSuffix(of, "/")+"/") && key != of+"/"
	})
	return below || refuses(key)
}

// refuses tells which keys MinIO does not take: its disk is a folder, and a part of a key a name in it.
func refuses(key string) bool {
	if strings.HasPrefix(key, "/") || strings.Contains(key, "//") || strings.Contains(key, "\x00") {
		return true
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." || len(part) > 255 {
			return true
		}
	}
	return false
}

// TestUploadsAreKnownAfterARestart leaves an upload open and kills the server, which forgets what it could list.
func TestUploadsAreKnownAfterARestart(t *testing.T) {
	s := startServer(t)
	b := bucketOf(t, s, "bucket")
	u, err := b.(store.MultipartBeginner).BeginUpload(t.Context(), "base/1", []byte("part"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Kill(t.Context()), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Uploads(t.Context(), "base/"); err != nil || len(got) != 1 || got[0].Key != u.Key || got[0].ID != u.ID {
		t.Errorf("Uploads: %v, %v; want %v", got, err, u)
	}
	if err := b.AbortUpload(t.Context(), u); err != nil {
		t.Error(err)
	}
	if got, err := b.Uploads(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("Uploads after AbortUpload: %v, %v", got, err)
	}
}
