package s3store

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"statebench.dev/bench/backend/store"
)

// answer is what the headers of a refusal say that the client's errors leave out.
type answer struct {
	after time.Duration // when to come again; 0: it is not said
	date  time.Time     // the server's clock; zero: it is not said
}

type answerKey struct{}

// listening returns ctx with a place for the newest refusal of a request made under it.
func listening(ctx context.Context) context.Context {
	return context.WithValue(ctx, answerKey{}, &atomic.Pointer[answer]{})
}

// answered is the newest refusal under ctx; the zero value where there was none.
func answered(ctx context.Context) answer {
	if p, ok := ctx.Value(answerKey{}).(*atomic.Pointer[answer]); ok {
		if a := p.Load(); a != nil {
			return *a
		}
	}
	return answer{}
}

// listener is a transport that keeps the headers of refusals for whoever listens.
type listener struct{ http.RoundTripper }

// RoundTrip makes the request.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if p, ok := r.Context().Value(answerKey{}).(*atomic.Pointer[answer]); ok && err == nil && resp.StatusCode >= http.StatusBadRequest {
		p.Store(&answer{after: retryAfter(resp.Header.Get("Retry-After")), date: date(resp.Header.Get("Date"))})
	}
	return resp, err
}

// retryAfter reads the header: a number of seconds or a date. What cannot be read is no wait.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at := date(s); !at.IsZero() {
		return max(0, time.Until(at))
	}
	return 0
}

func date(s string) time.Time {
	at, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return at
}

// maxSkew is the difference between the clocks of client and server from which on a server refuses what is signed.
const maxSkew = 15 * time.Minute

// skewed turns a refusal because of the time of the signature into an error that shows both clocks. Where they agree, the
// request has waited too long on its way: it had no effect and is signed again when it is made again. Where they do
// not, making it again helps nothing.
func skewed(a answer, now time.Time) error {
	if a.date.IsZero() {
		return fmt.Errorf("%w: the time of the signature was refused at %s by this machine's clock; the server does not tell its own", store.ErrDenied, clock(now))
	}
	off := now.Sub(a.date).Round(time.Second)
	if off.Abs() < maxSkew {
		return fmt.Errorf("%w: the request was signed too long before it arrived, at %s by the server's clock and %s by this machine's",
			store.ErrUnavailable, clock(a.date), clock(now))
	}
	return fmt.Errorf("%w: this machine's clock says %s, the server's %s: they are %v apart", store.ErrDenied, clock(now), clock(a.date), off.Abs())
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
