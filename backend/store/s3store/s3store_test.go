package s3store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/backend/store/storetest"
)

// wire hands requests to a server in this process; fault may answer in its place, before or after the effect.
type wire struct {
	h        http.Handler
	requests []string
	fault    func(r *http.Request, answer func() *http.Response) (*http.Response, error)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.requests = append(w.requests, r.Method+" "+r.URL.Path)
	answer := func() *http.Response {
		rec := httptest.NewRecorder()
		w.h.ServeHTTP(rec, r)
		resp := rec.Result()
		resp.Request = r
		return resp
	}
	if w.fault != nil {
		return w.fault(r, answer)
	}
	return answer(), nil
}

func open(t *testing.T, prefix string) (store.Bucket, *wire) {
	t.Helper()
	w := &wire{h: embedded.NewHandler()}
	b, err := s3store.Open(t.Context(), s3store.Options{
		Endpoint: "localhost", Bucket: "bucket", Prefix: prefix, Transport: w, Trusted: true, CreateBucket: true, PartSize: 5 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.requests = nil
	return b, w
}

// status answers with an error as S3 does.
func status(r *http.Request, code int, name string) *http.Response {
	body := "<Error><Code>" + name + "</Code><Message>injected</Message></Error>"
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Header: http.Header{"Content-Type": {"application/xml"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
}

func TestErrorsAreThoseOfTheStore(t *testing.T) {
	for _, c := range []struct {
		name                string
		fault               func(*http.Request) (*http.Response, error)
		put, get, del, list error
	}{
		{"slow down", func(r *http.Request) (*http.Response, error) { return status(r, 503, "SlowDown"), nil },
			store.ErrThrottled, store.ErrThrottled, store.ErrThrottled, store.ErrThrottled},
		{"too many", func(r *http.Request) (*http.Response, error) { return status(r, 429, "TooManyRequests"), nil },
			store.ErrThrottled, store.ErrThrottled, store.ErrThrottled, store.ErrThrottled},
		{"internal", func(r *http.Request) (*http.Response, error) { return status(r, 500, "InternalError"), nil },
			store.ErrAmbiguous, store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable},
		{"denied", func(r *http.Request) (*http.Response, error) { return status(r, 403, "AccessDenied"), nil },
			store.ErrDenied, store.ErrDenied, store.ErrDenied, store.ErrDenied},
		{"no bucket", func(r *http.Request) (*http.Response, error) { return status(r, 404, "NoSuchBucket"), nil },
			store.ErrDenied, store.ErrDenied, store.ErrDenied, store.ErrDenied},
		{"conflict", func(r *http.Request) (*http.Response, error) {
			return status(r, 409, "ConditionalRequestConflict"), nil
		},
			store.ErrThrottled, nil, nil, nil},
		{"refused", func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}, store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable},
		{"reset", func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
		}, store.ErrAmbiguous, store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, w := open(t, "")
			w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) { return c.fault(r) }
			is := func(op string, got, want error) {
				t.Helper()
				if want != nil && !errors.Is(got, want) || errors.Is(got, store.ErrAmbiguous) != (want == store.ErrAmbiguous) {
					t.Errorf("%s: got %v, want %v", op, got, want)
				}
			}
			is("put", b.Put(t.Context(), "k", []byte("x"), store.PutOptions{}), c.put)
			_, err := b.Get(t.Context(), "k")
			is("get", err, c.get)
			is("delete", b.Delete(t.Context(), []string{"k"})[0].Err, c.del)
			for _, err := range b.List(t.Context(), "", "") {
				is("list", err, c.list)
			}
			if len(w.requests) != 4 {
				t.Errorf("%d requests, want one each: %v", len(w.requests), w.requests)
			}
		})
	}
}

func TestAppliedButFailedPutIsAmbiguous(t *testing.T) {
	b, w := open(t, "run/")
	w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
		answer()
		return status(r, 500, "InternalError"), nil
	}
	err := b.Put(t.Context(), "coord/1", []byte("x"), store.PutOptions{IfNotExist: true})
	if !errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("Put: %v", err)
	}
	w.fault = nil
	err = b.Put(t.Context(), "coord/1", []byte("y"), store.PutOptions{IfNotExist: true})
	if got, _ := b.Get(t.Context(), "coord/1"); !errors.Is(err, store.ErrPrecondition) || string(got) != "x" {
		t.Errorf("second Put: %v, object %q", err, got)
	}
	if w.requests[0] != "PUT /bucket/run/coord/1" {
		t.Errorf("requests: %v", w.requests)
	}
}

func TestCutBodyIsAnError(t *testing.T) {
	b, w := open(t, "")
	if err := b.Put(t.Context(), "k", storetest.Pattern(1, 100_000), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
		resp := answer()
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, 30_000))
		return resp, nil
	}
	if body, err := b.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) || body != nil {
		t.Errorf("Get: %d bytes, %v", len(body), err)
	}
}

func TestFailedMultipartPutLeavesNothing(t *testing.T) {
	body := storetest.Pattern(2, 17<<20)
	for _, c := range []struct {
		name string
		fail func(r *http.Request) bool
		want error
	}{
		{"begin", func(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploads") }, store.ErrUnavailable},
		{"second part", func(r *http.Request) bool { return r.URL.Query().Get("partNumber") == "2" }, store.ErrUnavailable},
		{"complete", func(r *http.Request) bool { return r.Method == "POST" && r.URL.Query().Has("uploadId") }, store.ErrAmbiguous},
		{"cancel", nil, context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, w := open(t, "")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
				if c.fail == nil && r.URL.Query().Get("partNumber") == "3" {
					cancel()
					return nil, ctx.Err()
				}
				if c.fail != nil && c.fail(r) {
					return status(r, 500, "InternalError"), nil
				}
				return answer(), nil
			}
			if err := b.Put(ctx, "k", body, store.PutOptions{}); !errors.Is(err, c.want) {
				t.Errorf("Put: %v, want %v", err, c.want)
			}
			w.fault = nil
			if _, err := b.Stat(t.Context(), "k"); !errors.Is(err, store.ErrNotExist) {
				t.Errorf("Stat: %v", err)
			}
			if up, err := b.Uploads(t.Context(), ""); err != nil || len(up) != 0 {
				t.Errorf("Uploads: %v, %v", up, err)
			}
			if err := b.Put(t.Context(), "k", body, store.PutOptions{}); err != nil {
				t.Errorf("Put again: %v", err)
			}
			if got, err := b.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, body) {
				t.Errorf("Get: %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestConditionalPutIsOneRequest(t *testing.T) {
	b, w := open(t, "")
	if err := b.Put(t.Context(), "k", make([]byte, 17<<20), store.PutOptions{IfNotExist: true}); err != nil {
		t.Fatal(err)
	}
	if len(w.requests) != 1 {
		t.Errorf("requests: %v", w.requests)
	}
}

func TestUploadsArePaged(t *testing.T) {
	b, _ := open(t, "")
	m := b.(store.MultipartBeginner)
	for range 1100 {
		if _, err := m.BeginUpload(t.Context(), "base/same", nil); err != nil {
			t.Fatal(err)
		}
	}
	if up, err := b.Uploads(t.Context(), "base/"); err != nil || len(up) != 1100 {
		t.Errorf("%d uploads, %v", len(up), err)
	}
}

// TestUploadWhoseCallerIsGoneIsKnown: the answer to the begin of an upload comes after the caller has gone. The upload exists by
// then, so its id must not be lost: a put removes it, and who began one alone can remove it.
func TestUploadWhoseCallerIsGoneIsKnown(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(ctx context.Context, b store.Bucket) (store.Upload, error)
		left  bool
	}{
		{"put", func(ctx context.Context, b store.Bucket) (store.Upload, error) {
			return store.Upload{}, b.Put(ctx, "base/1", make([]byte, 6<<20), store.PutOptions{})
		}, false},
		{"begin", func(ctx context.Context, b store.Bucket) (store.Upload, error) {
			return b.(store.MultipartBeginner).BeginUpload(ctx, "base/1", []byte("part"))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, w := open(t, "")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := false
			w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
				if r.Method != http.MethodPost || !r.URL.Query().Has("uploads") {
					return answer(), r.Context().Err()
				}
				resp := answer()
				begun = true
				cancel()
				if err := r.Context().Err(); err != nil { // as a transport would that waits for the answer
					return nil, err
				}
				return resp, nil
			}
			u, err := c.begin(ctx, b)
			if !errors.Is(err, context.Canceled) || !begun {
				t.Fatalf("begun: %t, then %v", begun, err)
			}
			got, err := b.Uploads(t.Context(), "")
			if err != nil || (len(got) == 1) != c.left {
				t.Fatalf("Uploads: %v, %v", got, err)
			}
			if c.left {
				if got[0].Key != u.Key || got[0].ID != u.ID {
					t.Errorf("upload %+v was begun, the caller was told of %+v", got[0], u)
				}
				if err := b.AbortUpload(t.Context(), u); err != nil {
					t.Errorf("AbortUpload: %v", err)
				}
			}
		})
	}
}

// TestBeginOfAnUploadIsGivenUp: a server that does not answer holds a caller that is gone for the grace and no longer, and one
// that was gone before is not asked.
func TestBeginOfAnUploadIsGivenUp(t *testing.T) {
	b, w := open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	for range 2 {
		if _, err := b.(store.MultipartBeginner).BeginUpload(ctx, "base/1", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("BeginUpload: %v", err)
		}
	}
	if len(w.requests) != 1 {
		t.Errorf("requests: %v", w.requests)
	}
}
