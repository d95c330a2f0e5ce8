package provision

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
)

// The environment of store s3: credentials are named nowhere else, so that they get into no result.
const (
	envAccess = "AWS_ACCESS_KEY_ID"
	envSecret = "AWS_SECRET_ACCESS_KEY"
	envToken  = "AWS_SESSION_TOKEN"
	envRegion = "AWS_REGION"
)

// address is an s3 address taken apart.
type address struct {
	bucket, prefix, endpoint, region string
	secure                           bool
}

// parseAddress reads s3://bucket/prefix?endpoint=http://host:port&region=name. The prefix may be empty; without a region it
// is that of the environment, then us-east-1.
func parseAddress(spec string) (address, error) {
	u, err := url.Parse(spec)
	if err != nil { // the text of the error may hold a password
		return address{}, errors.New("s3 address cannot be read; it is like s3://bucket/prefix?endpoint=http://127.0.0.1:9000")
	}
	fail := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("s3://%s%s: %s", u.Host, u.Path, fmt.Sprintf(format, args...))
	}
	if u.User != nil {
		return fail("credentials do not belong into the address, where they would get into results: set %s and %s", envAccess, envSecret)
	}
	a := address{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	if a.prefix != "" {
		a.prefix += "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail("what follows the question mark cannot be read")
	}
	for key := range query { // order-free: any of them is refused by a message that does not name it
		if key != "endpoint" && key != "region" || len(query[key]) != 1 {
			return fail("it takes endpoint and region, each once, and nothing else")
		}
	}
	a.region = query.Get("region")
	if len(a.bucket) < 3 || u.Port() != "" {
		return fail("a bucket's name has three characters or more and no colon")
	}
	e, err := url.Parse(query.Get("endpoint"))
	if err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
		return fail("it needs an endpoint, for example endpoint=http://127.0.0.1:9000")
	}
	if e.User != nil || strings.Trim(e.Path, "/") != "" || e.RawQuery != "" || e.Fragment != "" || u.Fragment != "" {
		return fail("the endpoint is http or https, host and port, and nothing else")
	}
	a.endpoint, a.secure = e.Host, e.Scheme == "https"
	return a, nil
}

// openS3 opens a bucket that exists already. Nothing is created but objects under the prefix.
func openS3(ctx context.Context, spec string, o Options) (store.Bucket, Description, error) {
	a, err := parseAddress(spec)
	if err != nil {
		return nil, Description{}, err
	}
	env := o.Getenv
	if env == nil {
		env = os.Getenv
	}
	if env(envAccess) == "" || env(envSecret) == "" {
		return nil, Description{}, fmt.Errorf("store s3: set %s and %s (and %s where there is one) in the environment", envAccess, envSecret, envToken)
	}
	if a.region == "" {
		a.region = env(envRegion)
	}
	s := s3store.Options{Endpoint: a.endpoint, Bucket: a.bucket, Prefix: a.prefix, Secure: a.secure, Region: a.region,
		AccessKey: env(envAccess), SecretKey: env(envSecret), SessionToken: env(envToken)}
	if s.Transport, err = transport(s); err != nil {
		return nil, Description{}, err
	}
	b, err := s3store.Open(ctx, s)
	if err != nil {
		return nil, Description{}, err
	}
	d := Description{Kind: KindS3, Location: spec}
	if keeps, err := s3store.KeepsVersions(ctx, s); err == nil && keeps { // a server that does not say most likely has none
		d.Warning = fmt.Sprintf("bucket %s keeps versions: what is deleted stays as hidden objects, which no figure here counts and nothing here removes", a.bucket)
	}
	return b, d, nil
}

// openMinIO starts a server for this run alone.
func openMinIO(ctx context.Context, o Options) (store.Bucket, Description, error) {
	if o.MinIO == nil {
		return nil, Description{}, errors.New("store minio: this program starts no containers")
	}
	server, err := o.MinIO(ctx)
	if err != nil {
		return nil, Description{}, fmt.Errorf("store minio: %w", err)
	}
	access, secret := server.Credentials()
	b, err := openClient(ctx, s3store.Options{Endpoint: server.Endpoint(), Bucket: BucketName, AccessKey: access, SecretKey: secret, CreateBucket: true})
	if err != nil {
		return nil, Description{}, errors.Join(err, server.Close())
	}
	d := Description{Kind: KindMinIO, Location: "http://" + server.Endpoint(), PID: server.PID(), About: server.About(), Server: server,
		Usage: func() (embedded.Usage, error) { return embedded.UsageOf(server.PID()) }}
	return served{Bucket: b, end: server.Close}, d, nil
}

// openClient opens a bucket over the network.
func openClient(ctx context.Context, o s3store.Options) (_ store.Bucket, err error) {
	if o.Transport, err = transport(o); err != nil {
		return nil, err
	}
	return s3store.Open(ctx, o)
}

// transport makes requests to an endpoint; one on this machine is reached without a proxy of the environment.
func transport(o s3store.Options) (http.RoundTripper, error) {
	t, err := s3store.Transport(o.Secure, s3store.DefaultHeaderTimeout)
	if err != nil {
		return nil, err
	}
	if host, _, err := net.SplitHostPort(o.Endpoint); err == nil {
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			t.Proxy = nil
		}
	}
	return t, nil
}

// MakeBucket makes the one bucket of a server that a command keeps up.
func MakeBucket(ctx context.Context, endpoint, access, secret string) error {
	b, err := openClient(ctx, s3store.Options{Endpoint: endpoint, Bucket: BucketName, AccessKey: access, SecretKey: secret, CreateBucket: true})
	if err != nil {
		return err
	}
	return b.Close()
}
