package s3store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/backend/store/storetest"
	"statebench.dev/bench/internal/world"
)

// refused is an answer with headers.
func refused(r *http.Request, code int, name string, headers ...string) *http.Response {
	resp := status(r, code, name)
	for i := 0; i < len(headers); i += 2 {
		resp.Header.Set(headers[i], headers[i+1])
	}
	return resp
}

// retrying runs f with b under retries, in the real world.
func retrying(t *testing.T, b store.Bucket, f func(ctx context.Context, r *store.Retrying)) {
	t.Helper()
	w := world.NewReal(1)
	err := w.Run(func(ctx context.Context) error {
		f(ctx, store.WithRetry(b, store.RetryPolicy{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond, Timeout: 5 * time.Second}, w))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestD10ClocksApart: a refusal because of the time of the signature is not tried again where the clocks are apart, and says what both
// of them show; where they agree the request was late on its way, and is signed again.
func TestD10ClocksApart(t *testing.T) {
	const skewed = "RequestTimeTooSkewed"
	t.Run("apart", func(t *testing.T) {
		b, w := open(t, "")
		server := time.Now().Add(-20 * time.Minute).UTC()
		w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			return refused(r, http.StatusForbidden, skewed, "Date", server.Format(http.TimeFormat)), nil
		}
		retrying(t, b, func(ctx context.Context, r *store.Retrying) {
			err := r.Put(ctx, "k", []byte("x"), store.PutOptions{})
			if !errors.Is(err, store.ErrDenied) || len(w.requests) != 1 {
				t.Fatalf("%d requests, then %v", len(w.requests), err)
			}
			for _, part := range []string{server.Format(time.RFC3339), time.Now().UTC().Format("2006-01-02T15:"), "20m"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	})
	t.Run("late", func(t *testing.T) {
		b, w := open(t, "")
		w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
			if len(w.requests) == 1 { // it was held back for longer than a signature lasts
				return refused(r, http.StatusForbidden, skewed, "Date", time.Now().UTC().Format(http.TimeFormat)), nil
			}
			return answer(), nil
		}
		retrying(t, b, func(ctx context.Context, r *store.Retrying) {
			if err := r.Put(ctx, "k", []byte("x"), store.PutOptions{}); err != nil || len(w.requests) != 2 {
				t.Errorf("%d requests, then %v", len(w.requests), err)
			}
		})
	})
	t.Run("no date", func(t *testing.T) {
		b, w := open(t, "")
		w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			return refused(r, http.StatusForbidden, skewed), nil
		}
		if _, err := b.Get(t.Context(), "k"); !errors.Is(err, store.ErrDenied) {
			t.Errorf("%v", err)
		}
	})
}

// TestD12HeaderIsRead: the wait that a server asks for comes with the error, for each operation.
func TestD12HeaderIsRead(t *testing.T) {
	for header, want := range map[string][2]time.Duration{"0": {}, "": {}, "soon": {}, "1": {time.Second, time.Second}, "120": {2 * time.Minute, 2 * time.Minute},
		time.Now().Add(time.Minute).UTC().Format(http.TimeFormat): {50 * time.Second, time.Minute}} {
		b, w := open(t, "")
		w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			return refused(r, http.StatusServiceUnavailable, "SlowDown", "Retry-After", header), nil
		}
		check := func(op string, err error) {
			if after := store.RetryAfter(err); !errors.Is(err, store.ErrThrottled) || after < want[0] || after > want[1] {
				t.Errorf("%s, %q: %v after %v", op, header, err, after)
			}
		}
		_, err := b.Get(t.Context(), "k")
		check("get", err)
		if header != "120" { // one wait for all operations will do: the client takes its time after a refusal
			continue
		}
		check("put", b.Put(t.Context(), "k", []byte("x"), store.PutOptions{}))
		_, err = b.Stat(t.Context(), "k")
		check("stat", err)
		check("delete", b.Delete(t.Context(), []string{"k"})[0].Err)
		for _, err := range b.List(t.Context(), "", "") {
			check("list", err)
		}
		_, err = b.Uploads(t.Context(), "")
		check("uploads", err)
	}
}

// TestD17CodesSurviveTheRetries: what the server said is still there when the attempts are used up.
func TestD17CodesSurviveTheRetries(t *testing.T) {
	for _, c := range []struct {
		code int
		name string
		kind error
		say  string
	}{{503, "SlowDown", store.ErrThrottled, "after 3 attempts"}, {403, "AccessDenied", store.ErrDenied, "attempt 1"}, {0, "connection reset by peer", store.ErrAmbiguous, "after 3 attempts"}} {
		b, w := open(t, "")
		w.fault = func(r *http.Request, _ func() *http.Response) (*http.Response, error) {
			if c.code == 0 {
				return nil, errors.New(c.name)
			}
			resp := refused(r, c.code, c.name)
			body := "<Error><Code>" + c.name + "</Code><Message>code " + c.name + "</Message></Error>"
			resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			return resp, nil
		}
		retrying(t, b, func(ctx context.Context, r *store.Retrying) {
			err := r.Put(ctx, "log/7", []byte("x"), store.PutOptions{})
			if !errors.Is(err, c.kind) {
				t.Fatalf("%s: %v", c.name, err)
			}
			for _, part := range []string{c.name, c.say, "log/7"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// TestD13EachAttemptReadsForItself: the first attempt is refused while its connection still reads the body; the second sends all
// of it all the same.
func TestD13EachAttemptReadsForItself(t *testing.T) {
	body := storetest.Pattern(5, 4<<20)
	b, w := open(t, "")
	var stalled sync.WaitGroup
	second := make(chan struct{})
	w.fault = func(r *http.Request, answer func() *http.Response) (*http.Response, error) {
		if len(w.requests) > 1 {
			close(second)
			return answer(), nil
		}
		early := r.Body
		stalled.Go(func() { // goes on reading, a piece before the second attempt and the rest beside it
			io.CopyN(io.Discard, early, 1<<20)
			<-second
			io.Copy(io.Discard, early)
		})
		r.Body = http.NoBody
		return refused(r, http.StatusServiceUnavailable, "SlowDown"), nil
	}
	retrying(t, b, func(ctx context.Context, r *store.Retrying) {
		if err := r.Put(ctx, "k", body, store.PutOptions{}); err != nil {
			t.Error(err)
		}
	})
	stalled.Wait()
	w.fault = nil
	if got, err := b.Get(t.Context(), "k"); err != nil || !bytes.Equal(got, body) || len(w.requests) != 3 {
		t.Errorf("%d bytes after %d requests, %v", len(got), len(w.requests), err)
	}
}

// TestD06CancelledRequestsLeaveNoGoroutine: 200 uploads are cancelled half way and 200 downloads broken off, over real connections.
func TestD06CancelledRequestsLeaveNoGoroutine(t *testing.T) {
	h := embedded.NewHandler()
	reached, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/up/"):
			io.CopyN(io.Discard, r.Body, 100_000) // half of it
			reached <- struct{}{}
			<-gone // what is left does not fit into the buffers in between
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/down/"):
			rw.Header().Set("Content-Length", "200000")
			rw.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			rw.Write(make([]byte, 100_000))
			rw.(http.Flusher).Flush()
			reached <- struct{}{}
			<-r.Context().Done()
		default:
			h.ServeHTTP(rw, r)
		}
	}))
	tr, err := s3store.Transport(false, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s3store.Open(t.Context(), s3store.Options{Endpoint: server.Listener.Addr().String(), Bucket: "bucket", Transport: tr, Trusted: true, CreateBucket: true})
	if err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	before := runtime.NumGoroutine()
	cancelled := func(i int, f func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f(ctx) }()
		<-reached
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	body := make([]byte, 8<<20)
	for i := range 200 {
		cancelled(i, func(ctx context.Context) error { return b.Put(ctx, fmt.Sprint("up/", i), body, store.PutOptions{}) })
		gone <- struct{}{}
		cancelled(i, func(ctx context.Context) error { _, err := b.Get(ctx, fmt.Sprint("down/", i)); return err })
	}
	b.Close()
	server.Close() // waits for its handlers
	for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, there were %d:\n%s", n, before, buf[:runtime.Stack(buf, true)])
	}
}

// TestD07InterruptedListingIsAnError: the caller goes while the second page is asked for; the listing must not look complete.
func TestD07InterruptedListingIsAnError(t *testing.T) {
	b, w := open(t, "")
	for i := range 2500 {
		if err := b.Put(t.Context(), fmt.Sprintf("log/%04d", i), nil, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, stop := range []int{0, 500, 1000, 2000} {
		ctx, cancel := context.WithCancel(t.Context())
		w.requests = nil
		n, last := 0, error(nil)
		if stop == 0 {
			cancel()
		}
		for _, err := range b.List(ctx, "log/", "") {
			if last = err; err != nil {
				break
			}
			if n++; n == stop {
				cancel()
			}
		}
		cancel()
		if !errors.Is(last, context.Canceled) || n == 2500 {
			t.Errorf("cancelled after %d: %d entries, then %v", stop, n, last)
		}
	}
}
