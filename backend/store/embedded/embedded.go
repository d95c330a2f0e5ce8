// Package embedded is the S3 server that needs no installation: a subset of S3 that keeps objects in memory, run as a
// child process of the same binary, so that its CPU, memory and garbage collector stay out of the measured process.
//
// The parent calls Start, which runs the binary again with arguments that lead it to ServeChild, and reaches the server
// by Server.Dial: a unix socket in a folder of its own, open to this user only. The child ends when the parent does,
// however that ends: both hold an end of a pipe.
package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	socketName = "s3.sock"
	// maxSocketPath is what Linux and the BSDs take, with room to spare.
	maxSocketPath = 100
	// startTimeout bounds how long the child may take until it serves.
	startTimeout = 10 * time.Second
	// stopTimeout is how long a child may take to end before it is killed.
	stopTimeout = 5 * time.Second
	// The descriptors that a child inherits beyond the standard ones.
	lifeFD, readyFD = 3, 4
)

// Options say how to run the binary again.
type Options struct {
	// Exe is the binary; empty means the running one.
	Exe string
	// Args lead the binary to ServeChild, which gets what follows them; nil means "embedded-store".
	Args []string
	// Env is added to the environment.
	Env []string
}

// Server is a running child.
type Server struct {
	cmd  *exec.Cmd
	dir  string
	life *os.File // the child ends when this is closed
	log  *tail
	done chan struct{} // closed when the child has ended
	err  error         // how it ended; read after done

	stop sync.Once
}

// Usage is what a child has used.
type Usage struct {
	// CPU is user and system time since the start, RSS the resident memory in bytes.
	CPU time.Duration
	RSS int64
}

// Start runs the server and returns once it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Exe == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("start embedded store: %w", err)
		}
		o.Exe = exe
	}
	if o.Args == nil {
		o.Args = []string{"embedded-store"}
	}
	dir, err := socketDir()
	if err != nil {
		return nil, fmt.Errorf("start embedded store: %w", err)
	}
	s := &Server{dir: dir, log: &tail{}, done: make(chan struct{})}
	if err := s.start(ctx, o); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start embedded store: %w", err)
	}
	return s, nil
}

// socketDir makes a folder of mode 0700 with a path short enough for a socket.
func socketDir() (string, error) {
	dir, err := os.MkdirTemp("", "bench-store-")
	if err != nil || len(filepath.Join(dir, socketName)) <= maxSocketPath {
		return dir, err
	}
	os.RemoveAll(dir)
	return os.MkdirTemp("/tmp", "bench-store-")
}

func (s *Server) start(ctx context.Context, o Options) error {
	lifeChild, life, err := os.Pipe()
	if err != nil {
		return err
	}
	ready, readyChild, err := os.Pipe()
	if err != nil {
		lifeChild.Close()
		life.Close()
		return err
	}
	defer ready.Close()
	s.life = life
	s.cmd = exec.Command(o.Exe, append(append([]string{}, o.Args...), s.dir)...)
	s.cmd.Env = append(os.Environ(), o.Env...)
	s.cmd.ExtraFiles = []*os.File{lifeChild, readyChild} // lifeFD, readyFD
	s.cmd.Stderr = s.log
	detach(s.cmd)
	err = s.cmd.Start()
	lifeChild.Close()
	readyChild.Close()
	if err != nil {
		life.Close()
		return err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err := s.await(ctx, ready); err != nil {
		s.Stop()
		return err
	}
	return nil
}

// await waits for the byte that the child writes when it listens.
func (s *Server) await(ctx context.Context, ready *os.File) error {
	answer := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(ready, make([]byte, 1))
		answer <- err
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case err := <-answer:
		if err == nil {
			return nil
		}
		select { // the pipe broke, so the child is about to end; its last words say why
		case <-s.done:
		case <-timer.C:
		}
		return fmt.Errorf("%s ended before it served (%v): %s", s.cmd.Path, s.err, s.log)
	case <-timer.C:
		return fmt.Errorf("%s does not serve after %v: %s", s.cmd.Path, startTimeout, s.log)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Dial connects to the server whatever the network and address: it fits http.Transport.DialContext.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", s.Socket())
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, socketName) }

// PID is the child's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the child has ended, be it by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// Usage reads what the child has used so far. It needs /proc; elsewhere it returns errors.ErrUnsupported.
func (s *Server) Usage() (Usage, error) { return UsageOf(s.PID()) }

// UsageOf reads what the server with that process has used so far. It returns errors.ErrUnsupported where there is no
// such process, or no /proc.
func UsageOf(pid int) (Usage, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(proc + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return Usage{}, errors.ErrUnsupported
	}
	if err != nil {
		return Usage{}, fmt.Errorf("usage of the store: %w", err)
	}
	// The second field is the name in parentheses and may hold blanks; utime and stime are fields 14 and 15, rss is 24.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 22 {
		return Usage{}, fmt.Errorf("usage of the store: %q is too short", stat)
	}
	var n [3]int64
	for i, field := range [3]string{fields[11], fields[12], fields[21]} {
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return Usage{}, fmt.Errorf("usage of the store: %w", err)
		}
	}
	const tick = time.Second / 100 // USER_HZ, 100 on every Linux that Go runs on
	return Usage{CPU: time.Duration(n[0]+n[1]) * tick, RSS: n[2] * int64(os.Getpagesize())}, nil
}

// Stop ends the child and removes its folder. It may be called more than once.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.life.Close()
		select {
		case <-s.done:
		case <-time.After(stopTimeout):
			_ = s.cmd.Process.Kill() // it may have ended just now
			<-s.done
		}
		os.RemoveAll(s.dir)
	})
}

// tail keeps the last words of a child.
type tail struct {
	mu struct {
		sync.Mutex
		text []byte
	}
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.text = append(t.mu.text, p...)
	if over := len(t.mu.text) - most; over > 0 {
		t.mu.text = append(t.mu.text[:0], t.mu.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.mu.text))
}
