// Package s3store may import the S3 client.
package s3store

import _ "github.com/minio/minio-go/v7"

// Bucket is a bucket.
type Bucket struct{}
