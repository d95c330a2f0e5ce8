package scrub

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/backend/store"
)

// afterFolder follows every key of a folder in a listing.
const afterFolder = "\U0010FFFF"

// Prefixes finds the runs in a store: the prefixes, each ending in a slash, under which there are the marker or the
// coordinator log of a run. "" stands for the store as a whole, and is then the only one. It looks one folder deep and
// makes a few requests for each.
func Prefixes(ctx context.Context, b store.Bucket) ([]string, error) {
	ctx = store.WithInfo(ctx, store.Info{Cause: Cause, Who: Cause})
	if ok, err := holdsRun(ctx, b, ""); err != nil || ok {
		return []string{""}, err
	}
	var found []string
	for after := ""; ; {
		folder, err := nextFolder(ctx, b, after)
		if err != nil || folder == "" {
			return found, err
		}
		ok, err := holdsRun(ctx, b, folder)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, folder)
		}
		after = folder + afterFolder
	}
}

// nextFolder is the first folder with a key behind after; empty: there is none.
func nextFolder(ctx context.Context, b store.Bucket, after string) (string, error) {
	for at, err := range b.List(ctx, "", after) {
		if err != nil {
			return "", fmt.Errorf("list the store: %w", err)
		}
		if folder, _, ok := strings.Cut(at.Key, "/"); ok {
			return folder + "/", nil
		}
	}
	return "", nil
}

// holdsRun tells whether a run lies under a prefix.
func holdsRun(ctx context.Context, b store.Bucket, prefix string) (bool, error) {
	_, err := b.Stat(ctx, prefix+Marker)
	if err == nil || !errors.Is(err, store.ErrNotExist) {
		return err == nil, err
	}
	for at, err := range b.List(ctx, prefix+checkpoint.EntryPrefix, "") {
		if err != nil {
			return false, err
		}
		if _, ok := checkpoint.ParseEntryKey(strings.TrimPrefix(at.Key, prefix)); ok {
			return true, nil
		}
	}
	return false, nil
}
