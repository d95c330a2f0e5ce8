package provision_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/provision"
	"statebench.dev/bench/internal/world"
)

// TestA21HiddenVersionsAreToldOf (docs/known-faults.md): a bucket that keeps versions, or did, is opened with a warning; one that does not, or
// whose server does not say, without.
func TestA21HiddenVersionsAreToldOf(t *testing.T) {
	for answer, want := range map[string]bool{
		`<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`:   true,
		`<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`: true,
		`<VersioningConfiguration/>`: false,
		"":                           false, // a server that does not know the request
	} {
		asked := 0
		h := embedded.NewHandler()
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("versioning") {
				asked++
				if answer != "" {
					_, _ = io.WriteString(w, answer)
					return
				}
			}
			h.ServeHTTP(w, r)
		}))
		defer srv.Close()
		if err := provision.MakeBucket(t.Context(), strings.TrimPrefix(srv.URL, "http://"), "a", "b"); err != nil {
			t.Fatal(err)
		}
		b, d, err := provision.Open(t.Context(), world.NewReal(1), "s3://bench/p?endpoint="+srv.URL, provision.Options{Getenv: getenv})
		if err == nil {
			err = b.Put(t.Context(), "k", nil, store.PutOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(d.Warning, "bench keeps versions"); told != want || asked != 1 || !want && d.Warning != "" {
			t.Errorf("server says %q: asked %d times, warning %q", answer, asked, d.Warning)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
