package minio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// lifeFD is the descriptor by which a guard sees its parent end.
	lifeFD = 3
	// guardPatience is how long a guard waits for its parent's end once the pipe between them has broken.
	guardPatience = 10 * time.Minute
	guardPoll     = 250 * time.Millisecond
	// guardAgain is when a guard looks once more: the engine may just have been making a container.
	guardAgain = 2 * time.Second
)

// GuardOptions say how to run the binary again.
type GuardOptions struct {
	// Exe is the binary; empty means the running one.
	Exe string
	// Args lead the binary to Guard; nil means "container-guard".
	Args []string
	// Env is added to the environment.
	Env []string
}

// guard is the child that outlives this process for as long as it takes to remove its containers.
type guard struct {
	cmd  *exec.Cmd
	life *os.File
}

func startGuard(o GuardOptions) (*guard, error) {
	if o.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("start the guard of the MinIO container: %w", err)
		}
		o.Exe = exe
	}
	if o.Args == nil {
		o.Args = []string{"container-guard"}
	}
	child, life, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard of the MinIO container: %w", err)
	}
	defer child.Close()
	cmd := exec.Command(o.Exe, o.Args...)
	cmd.Env = append(os.Environ(), o.Env...)
	cmd.ExtraFiles = []*os.File{child} // lifeFD
	detach(cmd)
	if err := cmd.Start(); err != nil {
		life.Close()
		return nil, fmt.Errorf("start the guard of the MinIO container: %w", err)
	}
	return &guard{cmd: cmd, life: life}, nil
}

// dismiss ends the guard. When the container is not gone, the guard stays until this process ends, and tries then.
func (g *guard) dismiss(clean bool) {
	if clean {
		_, _ = g.life.Write([]byte{1}) // one that is gone needs no word
	}
	g.life.Close()
	if clean {
		_ = g.cmd.Wait() // how it ended does not matter any more
	}
}

// Guard is the main function of the guard. It waits until the parent dismisses it or is no more; then it removes what the
// parent and other dead processes have left.
func Guard() error {
	life := os.NewFile(lifeFD, "life")
	if life != nil {
		if info, err := life.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
			life = nil
		}
	}
	if life == nil {
		return errors.New("container guard: this command is started by a run, not by hand")
	}
	parent := os.Getppid()
	start := began(parent)
	if n, _ := io.ReadFull(life, make([]byte, 1)); n == 1 {
		return nil
	}
	for end := time.Now().Add(guardPatience); start != "" && alive(parent, start) == yes; time.Sleep(guardPoll) {
		if time.Now().After(end) {
			return errors.New("container guard: the parent has let go and lives on")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	e, err := Connect(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	_, first := e.Reap(ctx)
	time.Sleep(guardAgain)
	_, second := e.Reap(ctx)
	if second != nil {
		return errors.Join(first, second)
	}
	return nil
}
