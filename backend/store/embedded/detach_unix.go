//go:build unix

package embedded

import (
	"os/exec"
	"syscall"
)

// detach puts the child into a process group of its own: an interrupt from the terminal is for the parent, which still
// needs the store while it ends its run.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
