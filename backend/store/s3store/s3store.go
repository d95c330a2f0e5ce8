// Package s3store is any S3 endpoint as a store.Bucket, through minio-go.
//
// The client makes each request once: retries are the business of store.WithRetry, which counts them. Small objects go in
// one request, large ones in parts, which are removed when the upload fails. A conditional put is always one
// request, since most servers ignore the condition on the completion of parts.
package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"statebench.dev/bench/backend/store"
)

// Sizes and times of the client.
const (
	// DefaultPartSize is the size of a part, and the largest object that is put in one request.
	DefaultPartSize = 16 << 20
	// DefaultHeaderTimeout is how long the first byte of an answer may take.
	DefaultHeaderTimeout = 5 * time.Second

	deletePage   = 1000
	abortTimeout = 5 * time.Second
)

// Options say where the store is.
type Options struct {
	// Endpoint is "host:port", Bucket the bucket's name (three characters or more).
	Endpoint, Bucket string
	// Prefix is what every key begins with in the bucket; see store.WithPrefix.
	Prefix string
	// Secure selects TLS.
	Secure bool
	// Region; empty means us-east-1, which saves the client from asking.
	Region string
	// AccessKey, SecretKey and SessionToken sign the requests; without the first two requests are anonymous.
	AccessKey, SecretKey, SessionToken string
	// Transport makes the requests; nil means one of Transport(Secure, DefaultHeaderTimeout).
	Transport http.RoundTripper
	// Trusted says that bodies cannot be damaged on their way (a unix socket): they are sent without a signed checksum,
	// which halves the time of a put. Over TLS they always are.
	Trusted bool
	// PartSize overrides DefaultPartSize; at least 5 MiB.
	PartSize int64
	// CreateBucket makes the bucket unless it exists.
	CreateBucket bool
}

// Bucket is an S3 bucket. See Open.
type Bucket struct {
	core      minio.Core
	name      string
	transport http.RoundTripper
	unsigned  bool
	part      int64
	begun     uploads
}

var (
	_ store.Bucket            = (*Bucket)(nil)
	_ store.MultipartBeginner = (*Bucket)(nil)
)

// Transport returns a transport whose answers must begin within header, with connections enough for many workers.
func Transport(secure bool, header time.Duration) (*http.Transport, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	t.ResponseHeaderTimeout = header
	t.MaxIdleConnsPerHost = 128
	t.ReadBufferSize, t.WriteBufferSize = 64<<10, 64<<10
	return t, nil
}

// Open returns the bucket that o describes. Apart from CreateBucket it makes no request.
func Open(ctx context.Context, o Options) (store.Bucket, error) {
	if o.PartSize == 0 {
		o.PartSize = DefaultPartSize
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	b := &Bucket{
		core: minio.Core{Client: client}, name: o.Bucket, transport: o.Transport,
		unsigned: o.Trusted || o.Secure, part: max(o.PartSize, 5<<20),
	}
	if o.CreateBucket {
		if err := b.create(ctx, o.Region); err != nil {
			return nil, err
		}
	}
	return store.WithPrefix(b, o.Prefix), nil
}

// client makes the client of o, and completes o with what it was made with.
func (o *Options) client() (*minio.Client, error) {
	if o.Transport == nil {
		t, err := Transport(o.Secure, DefaultHeaderTimeout)
		if err != nil {
			return nil, err
		}
		o.Transport = t
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	var creds *credentials.Credentials
	if o.AccessKey != "" || o.SecretKey != "" {
		creds = credentials.NewStaticV4(o.AccessKey, o.SecretKey, o.SessionToken)
	}
	client, err := minio.New(o.Endpoint, &minio.Options{
		Creds: creds, Secure: o.Secure, Region: o.Region, Transport: listener{o.Transport}, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("s3 client for %q: %w", o.Endpoint, err)
	}
	return client, nil
}

// KeepsVersions asks whether the bucket keeps what is deleted or overwritten as hidden versions, or did once and may still have some.
// An error means that the server does not say: it may know no versions, or the credentials may not ask.
func KeepsVersions(ctx context.Context, o Options) (bool, error) {
	client, err := o.client()
	if err != nil {
		return false, err
	}
	v, err := client.GetBucketVersioning(listening(ctx), o.Bucket)
	return v.Enabled() || v.Suspended(), mapped(ctx, kindRead, "ask for the versions of bucket", o.Bucket, err)
}

func (b *Bucket) create(ctx context.Context, region string) error {
	err := b.core.MakeBucket(ctx, b.name, minio.MakeBucketOptions{Region: region})
	switch minio.ToErrorResponse(err).Code {
	case "BucketAlreadyOwnedByYou", "BucketAlreadyExists":
		return nil
	}
	return mapped(ctx, kindWrite, "create bucket", b.name, err)
}

// checkKey refuses keys that the client would not send.
func checkKey(key string) error {
	if key != "" && strings.TrimSpace(key) == "" {
		return fmt.Errorf("blank key %q: %w", key, store.ErrKey)
	}
	return store.CheckKey(key)
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body []byte, o store.PutOptions) error {
	ctx = listening(ctx)
	if err := checkKey(key); err != nil {
		return err
	}
	if int64(len(body)) > b.part && !o.IfNotExist {
		return b.putParts(ctx, key, body)
	}
	opts := minio.PutObjectOptions{DisableContentSha256: b.unsigned, DisableMultipart: true}
	if o.IfNotExist {
		opts.SetMatchETagExcept("*")
	}
	_, err := b.core.PutObject(ctx, b.name, key, bytes.NewReader(body), int64(len(body)), "", "", opts)
	return mapped(ctx, kindWrite, "put", key, err)
}

// putParts uploads body in parts. Whatever stops it, the parts are removed, by requests of their own deadline: ctx may be
// what has ended.
func (b *Bucket) putParts(ctx context.Context, key string, body []byte) error {
	id, err := b.begin(ctx, key)
	if err != nil {
		return mapped(ctx, kindPart, "begin upload of", key, err)
	}
	done := false
	defer func() {
		if done {
			b.begun.end(key, id)
			return
		}
		actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		_ = b.AbortUpload(actx, store.Upload{Key: key, ID: id}) // what is left over shows in Uploads
	}()
	var parts []minio.CompletePart
	for n := 1; len(body) > 0; n++ {
		piece := body[:min(int64(len(body)), b.part)]
		body = body[len(piece):]
		p, err := b.core.PutObjectPart(ctx, b.name, key, id, n, bytes.NewReader(piece), int64(len(piece)),
			minio.PutObjectPartOptions{DisableContentSha256: b.unsigned})
		if err != nil {
			return mapped(ctx, kindPart, fmt.Sprintf("put part %d of", n), key, err)
		}
		parts = append(parts, minio.CompletePart{PartNumber: n, ETag: p.ETag})
	}
	if _, err := b.core.CompleteMultipartUpload(ctx, b.name, key, id, parts, minio.PutObjectOptions{}); err != nil {
		return mapped(ctx, kindWrite, "complete upload of", key, err)
	}
	done = true
	return nil
}

// Get implements store.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) ([]byte, error) {
	return b.get(ctx, key, minio.GetObjectOptions{})
}

// GetRange implements store.Bucket.
func (b *Bucket) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if n == 0 { // no range of S3 is empty
		_, err := b.Stat(ctx, key)
		return []byte{}, err
	}
	end := off + n - 1
	if end < off {
		end = math.MaxInt64
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(off, end); err != nil {
		return nil, fmt.Errorf("range %d+%d of %q: %w", off, n, key, err)
	}
	body, err := b.get(ctx, key, o)
	if resp := (minio.ErrorResponse{}); errors.As(err, &resp) && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return []byte{}, nil // it begins past the end
	}
	return body, err
}

func (b *Bucket) get(ctx context.Context, key string, o minio.GetObjectOptions) ([]byte, error) {
	ctx = listening(ctx)
	if err := checkKey(key); err != nil {
		return nil, err
	}
	rc, info, _, err := b.core.GetObject(ctx, b.name, key, o)
	if err != nil {
		return nil, mapped(ctx, kindRead, "get", key, err)
	}
	defer rc.Close()
	if info.Size < 0 {
		body, err := io.ReadAll(rc)
		return body, mapped(ctx, kindRead, "get", key, err)
	}
	body := make([]byte, info.Size)
	if n, err := io.ReadFull(rc, body); err != nil {
		return nil, mapped(ctx, kindRead, fmt.Sprintf("get %d of %d bytes of", n, info.Size), key, err)
	}
	return body, nil
}

// Stat implements store.Bucket.
func (b *Bucket) Stat(ctx context.Context, key string) (store.Attributes, error) {
	ctx = listening(ctx)
	if err := checkKey(key); err != nil {
		return store.Attributes{}, err
	}
	info, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	if err != nil {
		return store.Attributes{}, mapped(ctx, kindRead, "stat", key, err)
	}
	return store.Attributes{Key: key, Size: info.Size, Modified: info.LastModified}, nil
}

// List implements store.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Attributes, error] {
	return func(yield func(store.Attributes, error) bool) {
		ctx, owner := listening(ctx), false
		for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{
			Prefix: prefix, StartAfter: startAfter, Recursive: true, FetchOwner: &owner,
		}) {
			if o.Err != nil {
				yield(store.Attributes{}, mapped(ctx, kindRead, "list", prefix, o.Err))
				return
			}
			if !yield(store.Attributes{Key: o.Key, Size: o.Size, Modified: o.LastModified}, nil) {
				return
			}
		}
		if ctx.Err() != nil { // the client ends a listing without a word then
			yield(store.Attributes{}, mapped(ctx, kindRead, "list", prefix, ctx.Err()))
		}
	}
}

// Delete implements store.Bucket, 1,000 keys a request.
func (b *Bucket) Delete(ctx context.Context, keys []string) []store.Deleted {
	out := make([]store.Deleted, len(keys))
	for i := 0; i < len(keys); i += deletePage {
		b.deletePage(ctx, keys[i:min(i+deletePage, len(keys))], out[i:])
	}
	return out
}

func (b *Bucket) deletePage(ctx context.Context, keys []string, out []store.Deleted) {
	ctx = listening(ctx)
	answers := make(map[string]error, len(keys))
	results, err := b.core.RemoveObjectsWithIter(ctx, b.name, func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if checkKey(key) == nil && !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err == nil {
		for r := range results {
			if r.ObjectName == "" {
				err = r.Err // the answer as a whole could not be read
				continue
			}
			answers[r.ObjectName] = r.Err
		}
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	for i, key := range keys {
		out[i].Key = key
		answer, ok := answers[key]
		switch {
		case checkKey(key) != nil:
			out[i].Err = checkKey(key)
		case ok:
			out[i].Err = mapped(ctx, kindDelete, "delete", key, answer)
		case err != nil:
			out[i].Err = mapped(ctx, kindDelete, "delete", key, err)
		default:
			out[i].Err = fmt.Errorf("delete %q: not in the answer: %w", key, store.ErrUnavailable)
		}
	}
}

// Close implements store.Bucket: it closes idle connections.
func (b *Bucket) Close() error {
	if t, ok := b.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return nil
}
