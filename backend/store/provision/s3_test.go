package provision_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/backend/store/storetest"
	"statebench.dev/bench/internal/world"
)

// secret is the environment of a test; what it holds may be in no error and no description.
var secret = map[string]string{"AWS_ACCESS_KEY_ID": "access-hidden", "AWS_SECRET_ACCESS_KEY": "secret-hidden"}

func getenv(name string) string { return secret[name] }

func TestS3KeepsToItsPrefix(t *testing.T) {
	srv := httptest.NewServer(embedded.NewHandler())
	t.Cleanup(srv.Close)
	o := provision.Options{Getenv: getenv}
	if err := provision.MakeBucket(t.Context(), strings.TrimPrefix(srv.URL, "http://"), "a", "b"); err != nil {
		t.Fatal(err)
	}
	open := func(spec string) store.Bucket {
		t.Helper()
		b, d, err := provision.Open(t.Context(), world.NewReal(1), spec, o)
		if err != nil {
			t.Fatal(err)
		}
		if d.Kind != provision.KindS3 || d.Location != spec || strings.Contains(d.Location, "hidden") || d.Server != nil {
			t.Errorf("%+v", d)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	all := open("s3://bench?endpoint=" + srv.URL)
	part := open("s3://bench/a/b/?endpoint=" + srv.URL + "&region=eu-central-1")
	if err := part.Put(t.Context(), "k", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := all.Put(t.Context(), "other", nil, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := storetest.Keys(t, all, "", ""), []string{"a/b/k", "other"}; !slices.Equal(got, want) {
		t.Errorf("bucket holds %q, want %q", got, want)
	}
	if got := storetest.Keys(t, part, "", ""); !slices.Equal(got, []string{"k"}) {
		t.Errorf("prefix holds %q", got)
	}
}

func TestS3AddressesAreStrict(t *testing.T) {
	for spec, want := range map[string]string{
		"s3:":                                                        "a bucket's name",
		"s3://bucket":                                                "needs an endpoint",
		"s3://bucket?endpoint=127.0.0.1:9000":                        "needs an endpoint",
		"s3://bucket?endpoint=ftp://127.0.0.1":                       "needs an endpoint",
		"s3://bu?endpoint=http://127.0.0.1:9000":                     "a bucket's name",
		"s3://bucket:1/?endpoint=http://127.0.0.1:9000":              "a bucket's name",
		"s3://bucket?endpoint=http://127.0.0.1:9000/path":            "nothing else",
		"s3://bucket?endpoint=http://127.0.0.1:9000&secret=hidden":   "nothing else",
		"s3://bucket?endpoint=http://a&endpoint=http://b":            "each once",
		"s3://me:hidden@bucket?endpoint=http://127.0.0.1:9000":       "credentials",
		"s3://bucket?endpoint=http://me:hidden@127.0.0.1:9000":       "nothing else",
		"s3://me:hidden%zz@bucket?endpoint=http://127.0.0.1:9000":    "cannot be read",
		"s3://bucket/p?endpoint=http://127.0.0.1:9000&password=%zz1": "cannot be read",
	} {
		err := provision.Check(world.NewReal(1), spec)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("Check(%q) = %v; want an error about %q without the password", spec, err, want)
		}
	}
}

func TestS3NeedsCredentials(t *testing.T) {
	_, _, err := provision.Open(t.Context(), world.NewReal(1), "s3://bucket?endpoint=http://127.0.0.1:1",
		provision.Options{Getenv: func(string) string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Error(err)
	}
}

// server is a started server whose endpoint is that of a test.
type server struct {
	endpoint string
	closed   *int
}

func (s server) Endpoint() string                     { return s.endpoint }
func (s server) Credentials() (access, secret string) { return "access-hidden", "secret-hidden" }
func (s server) About() string                        { return "server v1" }
func (s server) PID() int                             { return 0 }
func (s server) Pause(context.Context) error          { return nil }
func (s server) Resume(context.Context) error         { return nil }
func (s server) Stop(context.Context) error           { return nil }
func (s server) Kill(context.Context) error           { return nil }
func (s server) Start(context.Context) error          { return nil }
func (s server) Close() error                         { *s.closed++; return nil }

func TestMinIOIsEndedWithItsBucket(t *testing.T) {
	srv := httptest.NewServer(embedded.NewHandler())
	t.Cleanup(srv.Close)
	closed := 0
	s := server{endpoint: strings.TrimPrefix(srv.URL, "http://"), closed: &closed}
	started := func(context.Context) (provision.Server, error) { return s, nil }
	b, d, err := provision.Open(t.Context(), world.NewReal(1), "minio", provision.Options{MinIO: started})
	if err != nil {
		t.Fatal(err)
	}
	if d.Kind != provision.KindMinIO || d.Location != srv.URL || d.About != "server v1" || d.Server == nil {
		t.Errorf("%+v", d)
	}
	if err := b.Put(t.Context(), "k", nil, store.PutOptions{}); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil || closed != 1 {
		t.Errorf("Close: %v, the server was closed %d times", err, closed)
	}
	srv.Close()
	if _, _, err := provision.Open(t.Context(), world.NewReal(1), "minio", provision.Options{MinIO: started}); err == nil || closed != 2 {
		t.Errorf("a server that does not answer: %v, closed %d times", err, closed)
	}
	failing := func(context.Context) (provision.Server, error) { return nil, errors.New("no engine") }
	if _, _, err := provision.Open(t.Context(), world.NewReal(1), "minio", provision.Options{MinIO: failing}); err == nil || !strings.Contains(err.Error(), "no engine") {
		t.Error(err)
	}
}
