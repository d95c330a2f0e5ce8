//go:build !unix

package embedded

import "os/exec"

func detach(*exec.Cmd) {}
