//go:build !unix

package minio

import "os/exec"

func detach(*exec.Cmd) {}
