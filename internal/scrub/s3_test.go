package scrub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scrub"
	"statebench.dev/bench/internal/world"
)

// wire hands requests to a server in this process.
type wire struct{ h http.Handler }

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	resp := rec.Result()
	resp.Request = r
	return resp, r.Context().Err()
}

// TestS3TellsAges: over S3 listings tell when objects were written and uploads begun, so that a repair spares the young ones;
// later it removes them, ends the upload, and leaves a clean store.
func TestS3TellsAges(t *testing.T) {
	raw, err := s3store.Open(t.Context(), s3store.Options{Endpoint: "localhost", Bucket: "bucket", Transport: wire{embedded.NewHandler()}, Trusted: true, CreateBucket: true})
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "bench-1/"
	b := store.WithPrefix(raw, prefix)
	for key, body := range left(t, "lsm") {
		put(t, b, key, body)
	}
	put(t, b, "base/1/count-0/900", []byte("left"))
	if _, err := raw.(store.MultipartBeginner).BeginUpload(t.Context(), prefix+"base/1/count-0/901", []byte("part")); err != nil {
		t.Fatal(err)
	}
	repair := func(at time.Time) (r *scrub.Report, done scrub.Repaired) {
		w := world.NewReal(1)
		err := w.Run(func(ctx context.Context) (err error) {
			if r, err = scrub.Audit(ctx, w, b, scrub.Options{Formats: catalog.Formats(), Now: at, Readers: 2, Memory: 8 << 10}); err == nil {
				none := time.Duration(0)
				done, err = scrub.Repair(ctx, w, b, r, scrub.RepairOptions{Yes: true, Quiet: &none, Now: at, Owner: at.String()})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return r, done
	}
	r, done := repair(time.Now())
	if r.Verdict() != scrub.Litter || r.Counts[scrub.Orphan] != 1 || r.Counts[scrub.Upload] != 1 || done.Young != 2 || done.Objects+done.Uploads != 0 {
		t.Errorf("found %+v, repaired %+v", r, done)
	}
	if _, done = repair(time.Now().Add(2 * time.Hour)); done.Objects != 1 || done.Uploads != 1 || done.Left() != 0 {
		t.Errorf("two hours later repaired %+v", done)
	}
	if r, _ = repair(time.Now()); r.Verdict() != scrub.Clean {
		t.Errorf("afterwards %+v", r)
	}
}
