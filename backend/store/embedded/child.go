package embedded

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

const (
	// gcPercent keeps the garbage of a child below half of what it stores.
	gcPercent = 50
	// Memory of deleted objects goes back to the system once it is releaseBytes, looked at each releaseEvery.
	releaseBytes = 32 << 20
	releaseEvery = 2 * time.Second
)

// ServeChild is the child's main function. args is what followed Options.Args: the folder of the socket. It serves until
// the parent closes its end of the pipe or is no more, then removes the folder and returns.
func ServeChild(args ...string) error {
	if len(args) != 1 {
		return fmt.Errorf("embedded store: %d arguments, want the folder of the socket; this command is started by a run, not by hand", len(args))
	}
	dir := args[0]
	life, ready := pipe(lifeFD, "life"), pipe(readyFD, "ready")
	if life == nil || ready == nil {
		return errors.New("embedded store: this command is started by a run, not by hand")
	}
	defer removeSocket(dir)
	debug.SetGCPercent(gcPercent)
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		return fmt.Errorf("embedded store: %w", err)
	}
	h := NewHandler()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, life) // ends with the parent, whatever the error
		close(ended)
	}()
	if _, err := ready.Write([]byte{1}); err != nil {
		return fmt.Errorf("embedded store: %w", err)
	}
	ready.Close()
	release := time.NewTicker(releaseEvery)
	defer release.Stop()
	for {
		select {
		case <-ended:
			removeSocket(dir) // before connections close, so that who sees one end finds the folder gone
			return srv.Close()
		case err := <-failed:
			return fmt.Errorf("embedded store: %w", err)
		case <-release.C:
			if h.freed.Load() >= releaseBytes {
				h.freed.Store(0)
				debug.FreeOSMemory()
			}
		}
	}
}

// pipe is an inherited descriptor, nil where it is no pipe.
func pipe(fd uintptr, name string) *os.File {
	f := os.NewFile(fd, name)
	if f == nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	return f
}

// removeSocket removes the socket and its folder, and nothing else: the folder is an argument.
func removeSocket(dir string) {
	os.Remove(filepath.Join(dir, socketName))
	os.Remove(dir)
}
