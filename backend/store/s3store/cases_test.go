package s3store_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
)

// TestB24MoreReadersThanConnections (docs/known-faults.md): sixteen readers get two ranges of each of 200 objects over four connections. A reader
// holds none while it waits for another, so all come to an end.
func TestB24MoreReadersThanConnections(t *testing.T) {
	const connections, readers, objects = 4, 16, 200
	var open, most atomic.Int64
	server := httptest.NewUnstartedServer(embedded.NewHandler())
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			most.Store(max(most.Load(), open.Add(1)))
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	defer server.Close()
	transport, err := s3store.Transport(false, s3store.DefaultHeaderTimeout)
	if err != nil {
		t.Fatal(err)
	}
	transport.MaxConnsPerHost = connections
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b, err := s3store.Open(ctx, s3store.Options{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "bucket", Transport: transport,
		Trusted: true, CreateBucket: true})
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	for i := range objects {
		if err := b.Put(ctx, fmt.Sprintf("base/%d", i), body, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	var got atomic.Int64
	for r := range readers {
		all.Go(func() {
			for i := r; i < objects; i += readers {
				for _, off := range []int64{0, int64(len(body) / 2)} {
					part, err := b.GetRange(ctx, fmt.Sprintf("base/%d", i), off, int64(len(body)/2))
					if err != nil || !bytes.Equal(part, body[off:off+int64(len(part))]) {
						t.Errorf("object %d from %d: %v", i, off, err)
						return
					}
					got.Add(int64(len(part)))
				}
			}
		})
	}
	all.Wait()
	if got.Load() != int64(objects*len(body)) || most.Load() > connections || most.Load() < 2 {
		t.Errorf("%d bytes over at most %d connections", got.Load(), most.Load())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
