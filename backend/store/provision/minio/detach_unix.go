//go:build unix

package minio

import (
	"os/exec"
	"syscall"
)

// detach puts the guard into a session of its own: an interrupt or a hang-up of the terminal is for its parent.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
