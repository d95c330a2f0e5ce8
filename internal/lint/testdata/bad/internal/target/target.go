// Package target takes a dependency that is not its own, and one that nobody owns.
package target

import (
	_ "example.com/unknown"          // want: module
	_ "github.com/minio/minio-go/v7" // want: module
)
