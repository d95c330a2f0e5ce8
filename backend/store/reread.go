package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/internal/world"
)

// How reading goes on when what comes may be damaged.
const (
	rereads     = 8 // readings at most
	agreeing    = 3 // consecutive readings with the same damage: it is the object that is damaged
	rereadPause = 50 * time.Millisecond
	rereadCap   = time.Second
)

// Reread calls read, which gets something from a bucket and verifies it, again while it fails with ErrCorrupt: bytes that
// were damaged on the way are whole the next time. got is the checksum of what came. Three readings in a row with the same
// damage are that of the object, and the error of the last one is returned. When no three agree, the way to the store is
// what is damaged: after eight readings, within about 5 s, the error is ErrUnavailable and not ErrCorrupt, so that callers go
// on as with a store that cannot be reached. Other errors are returned at once.
func Reread(ctx context.Context, w world.World, read func() (got uint32, err error)) error {
	var before uint32
	same, pause := 0, rereadPause
	for n := 1; ; n++ {
		got, err := read()
		if err == nil || !errors.Is(err, ErrCorrupt) {
			return err
		}
		if n == 1 || got != before {
			same = 0
		}
		before = got
		if same++; same == agreeing {
			return err
		}
		if n == rereads {
			return fmt.Errorf("%w: damaged on the way, differently in each of %d readings: %v", ErrUnavailable, n, err)
		}
		if err := w.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, rereadCap)
	}
}
