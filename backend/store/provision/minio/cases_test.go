package minio

import (
	"fmt"
	"testing"

	client "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/s3store"
)

// TestA21DeletedObjectsStayAsVersions (docs/known-faults.md): two hundred objects come and go, as those of checkpoints do, in a bucket that keeps
// versions. A listing shows what lives, the server has far more, and the client knows that it may.
func TestA21DeletedObjectsStayAsVersions(t *testing.T) {
	s := startServer(t)
	b := bucketOf(t, s, "versioned")
	access, secret := s.Credentials()
	o := s3store.Options{Endpoint: s.Endpoint(), Bucket: "versioned", AccessKey: access, SecretKey: secret}
	keeps := func(want bool) {
		t.Helper()
		if got, err := s3store.KeepsVersions(t.Context(), o); err != nil || got != want {
			t.Errorf("keeps versions: %t, %v", got, err)
		}
	}
	keeps(false)
	c, err := client.New(s.Endpoint(), &client.Options{Creds: credentials.NewStaticV4(access, secret, "")})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.EnableVersioning(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := b.Put(t.Context(), fmt.Sprintf("base/%d", i), []byte("snapshot"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		if d := b.Delete(t.Context(), []string{fmt.Sprintf("base/%d", i-1)}); d[0].Err != nil {
			t.Fatal(d[0].Err)
		}
	}
	live, hidden := 0, 0
	for _, err := range b.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		live++
	}
	for v := range c.ListObjects(t.Context(), "versioned", client.ListObjectsOptions{Recursive: true, WithVersions: true}) {
		if v.Err != nil {
			t.Fatal(v.Err)
		}
		hidden++
	}
	keeps(true)
	if live != 1 || hidden != 399 { // each deleted object is there still, and a marker that it was deleted
		t.Errorf("%d objects are listed, there are %d", live, hidden)
	}
	if err := c.SuspendVersioning(t.Context(), "versioned"); err != nil {
		t.Fatal(err)
	}
	keeps(true)
}
