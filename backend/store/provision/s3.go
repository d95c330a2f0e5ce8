package provision

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	b, err := openClient(ctx, s)
	if err != nil {
		return nil, Description{}, err
	}
	return b, Description{Kind: KindS3, Location: spec}, nil
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

// openClient opens a bucket over the network. An endpoint on this machine is reached without a proxy of the environment.
func openClient(ctx context.Context, o s3store.Options) (store.Bucket, error) {
	t, err := s3store.Transport(o.Secure, s3store.DefaultHeaderTimeout)
	if err != nil {
		return nil, err
	}
	if host, _, err := net.SplitHostPort(o.Endpoint); err == nil {
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			t.Proxy = nil
		}
	}
	o.Transport = t
	return s3store.Open(ctx, o)
}

// MakeBucket makes the one bucket of a server that a command keeps up.
func MakeBucket(ctx context.Context, endpoint, access, secret string) error {
	b, err := openClient(ctx, s3store.Options{Endpoint: endpoint, Bucket: BucketName, AccessKey: access, SecretKey: secret, CreateBucket: true})
	if err != nil {
		return err
	}
	return b.Close()
}
