// Package provision brings up the store that a run names: mem, dir:PATH or embedded. The caller gets a plain bucket, puts
// its decorators around it and closes it in the end, which also ends what was started here.
package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/dirstore"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/internal/world"
)

// The kinds of stores.
const (
	KindMem      = "mem"
	KindDir      = "dir"
	KindEmbedded = "embedded"
)

// bucketName is the one bucket of the embedded server.
const bucketName = "bench"

// Options say how to bring stores up; the zero value is that of the command.
type Options struct {
	// Embedded says how the binary is run again as the embedded server.
	Embedded embedded.Options
}

// Description says what a bucket is, for the manifest.
type Description struct {
	// Kind is one of the kinds, Location where it is (without credentials): empty, an absolute folder, or a socket.
	Kind     string `json:"kind"`
	Location string `json:"location,omitempty"`
	// PID is the process that was started for it, 0 for none.
	PID int `json:"pid,omitempty"`
	// Usage reads what that process has used; nil where there is none.
	Usage func() (embedded.Usage, error) `json:"-"`
}

// Check reports whether spec names a store that w can run on, without bringing it up.
func Check(w world.World, spec string) error {
	kind, rest, _ := strings.Cut(spec, ":")
	switch {
	case spec == KindMem, spec == KindEmbedded, kind == KindDir && rest != "":
	default:
		return fmt.Errorf("store %q: it is one of mem, dir:PATH, embedded", spec)
	}
	if w.Simulated() && spec != KindMem {
		return fmt.Errorf("store %q: the simulated world runs on mem only", spec)
	}
	return nil
}

// Open brings up the store that spec names.
func Open(ctx context.Context, w world.World, spec string, o Options) (store.Bucket, Description, error) {
	if err := Check(w, spec); err != nil {
		return nil, Description{}, err
	}
	switch spec {
	case KindMem:
		return store.NewMem(), Description{Kind: KindMem}, nil
	case KindEmbedded:
		return openEmbedded(ctx, o.Embedded)
	}
	return openDir(strings.TrimPrefix(spec, KindDir+":"))
}

func openDir(folder string) (store.Bucket, Description, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, Description{}, fmt.Errorf("store dir: %w", err)
	}
	switch info, err := os.Stat(folder); {
	case err == nil && !info.IsDir():
		return nil, Description{}, fmt.Errorf("store dir:%s: it exists and is not a folder", folder)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, Description{}, fmt.Errorf("store dir:%s: %w", folder, err)
	}
	b, err := dirstore.Open(folder)
	if err != nil {
		return nil, Description{}, err
	}
	return b, Description{Kind: KindDir, Location: folder}, nil
}

// served is a bucket with the server that was started for it.
type served struct {
	store.Bucket
	server *embedded.Server
}

// Close closes the bucket and ends the server.
func (s served) Close() error {
	err := s.Bucket.Close()
	s.server.Stop()
	return err
}

func openEmbedded(ctx context.Context, o embedded.Options) (store.Bucket, Description, error) {
	server, err := embedded.Start(ctx, o)
	if err != nil {
		return nil, Description{}, err
	}
	t, err := s3store.Transport(false, s3store.DefaultHeaderTimeout)
	if err != nil {
		server.Stop()
		return nil, Description{}, err
	}
	t.Proxy, t.DialContext = nil, server.Dial
	b, err := s3store.Open(ctx, s3store.Options{
		Endpoint: "localhost", Bucket: bucketName, Transport: t, Trusted: true, CreateBucket: true,
	})
	if err != nil {
		server.Stop()
		return nil, Description{}, err
	}
	return served{Bucket: b, server: server},
		Description{Kind: KindEmbedded, Location: server.Socket(), PID: server.PID(), Usage: server.Usage}, nil
}
