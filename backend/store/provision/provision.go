// Package provision brings up the store that a run names: mem, dir:PATH, embedded, minio or s3://BUCKET/PREFIX. The caller
// gets a plain bucket, puts its decorators around it and closes it in the end, which also ends what was started here.
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
	"statebench.dev/bench/internal/target"
	"statebench.dev/bench/internal/world"
)

// The kinds of stores.
const (
	KindMem      = "mem"
	KindDir      = "dir"
	KindEmbedded = "embedded"
	KindMinIO    = "minio"
	KindS3       = "s3"
)

// Forms lists how stores are named, for messages.
const Forms = "mem, dir:PATH, embedded, minio, s3://BUCKET/PREFIX?endpoint=URL"

// BucketName is the one bucket of a server that was started here.
const BucketName = "bench"

// Options say how to bring stores up; the zero value is that of the command.
type Options struct {
	// Embedded says how the binary is run again as the embedded server.
	Embedded embedded.Options
	// MinIO starts a server in a container; nil: the program cannot. It is a function so that only programs that use
	// containers are linked with what drives them.
	MinIO func(ctx context.Context) (Server, error)
	// Getenv reads the credentials of store s3; nil means os.Getenv.
	Getenv func(name string) string
}

// Server is an S3 server that was started for a run.
type Server interface {
	target.StoreServer
	// Endpoint is the address as "host:port".
	Endpoint() string
	// Credentials sign the requests.
	Credentials() (access, secret string)
	// About names what the server was made from: version, checksum, digest.
	About() string
	// PID is the server's process on this machine, 0 when there is none.
	PID() int
	// Close ends the server and removes what was started for it.
	Close() error
}

// Description says what a bucket is, for the manifest.
type Description struct {
	// Kind is one of the kinds, Location where it is (without credentials): empty, an absolute folder, a socket, a URL.
	Kind     string `json:"kind"`
	Location string `json:"location,omitempty"`
	// PID is the process that was started for it, 0 for none.
	PID int `json:"pid,omitempty"`
	// Usage reads what that process has used; nil where there is none.
	Usage func() (embedded.Usage, error) `json:"-"`
	// About names what a server was made from, where that can vary: version, checksum, digest.
	About string `json:"about,omitempty"`
	// Warning says what of the store no listing shows; empty: nothing that is known.
	Warning string `json:"warning,omitempty"`
	// Server is what faults of the server act on; nil where there is none.
	Server target.StoreServer `json:"-"`
}

// Check reports whether spec names a store that w can run on, without bringing it up.
func Check(w world.World, spec string) error {
	kind, rest, _ := strings.Cut(spec, ":")
	switch {
	case spec == KindMem, spec == KindEmbedded, spec == KindMinIO, kind == KindDir && rest != "":
	case kind == KindS3:
		if _, err := parseAddress(spec); err != nil {
			return fmt.Errorf("store %w", err)
		}
	default:
		return fmt.Errorf("store %q: it is one of %s", spec, Forms)
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
	switch kind, rest, _ := strings.Cut(spec, ":"); kind {
	case KindMem:
		return store.NewMem(), Description{Kind: KindMem}, nil
	case KindEmbedded:
		return openEmbedded(ctx, o.Embedded)
	case KindMinIO:
		return openMinIO(ctx, o)
	case KindS3:
		return openS3(ctx, spec, o)
	default:
		return openDir(rest)
	}
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
	end func() error
}

// Close closes the bucket and ends the server.
func (s served) Close() error { return errors.Join(s.Bucket.Close(), s.end()) }

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
		Endpoint: "localhost", Bucket: BucketName, Transport: t, Trusted: true, CreateBucket: true,
	})
	if err != nil {
		server.Stop()
		return nil, Description{}, err
	}
	return served{Bucket: b, end: func() error { server.Stop(); return nil }},
		Description{Kind: KindEmbedded, Location: server.Socket(), PID: server.PID(), Usage: server.Usage}, nil
}
