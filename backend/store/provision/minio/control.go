package minio

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Pause freezes the server: connections are still taken, but requests hang. It needs a running server.
func (s *Server) Pause(ctx context.Context) error {
	return s.act("pause", running, paused, func() error {
		_, err := s.engine.client.ContainerPause(ctx, s.ID(), client.ContainerPauseOptions{})
		return err
	})
}

// Resume ends a pause; requests that waited go on.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resume(ctx)
}

func (s *Server) resume(ctx context.Context) error {
	return s.step("resume", paused, running, func() error {
		_, err := s.engine.client.ContainerUnpause(ctx, s.ID(), client.ContainerUnpauseOptions{})
		return err
	})
}

// Stop ends the server in good order, by force after five seconds. What it has acknowledged is there after Start.
func (s *Server) Stop(ctx context.Context) error {
	return s.act("stop", running, down, func() error {
		patience := stopTimeout
		err := s.container.Stop(ctx, &patience)
		s.proxy.point("")
		return err
	})
}

// Kill ends the server at once, be it paused, as a crash does. What it has acknowledged is there after Start.
func (s *Server) Kill(ctx context.Context) error {
	return s.act("kill", "", down, func() error {
		_, err := s.engine.client.ContainerKill(ctx, s.ID(), client.ContainerKillOptions{Signal: "SIGKILL"})
		if err == nil {
			err = s.await(ctx)
		}
		s.proxy.point("")
		return err
	})
}

// await waits until the engine has seen the container end, since it cannot be started before.
func (s *Server) await(ctx context.Context) error {
	for {
		info, err := s.engine.client.ContainerInspect(ctx, s.ID(), client.ContainerInspectOptions{})
		if err != nil || !info.Container.State.Running {
			return err
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Start brings the server back to where it serves, whatever Pause, Stop or Kill did to it, and returns once it is ready. It
// does nothing to one that serves.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.mu.state {
	case running:
		return nil
	case paused:
		return s.resume(ctx)
	}
	return s.step("start", down, running, func() error {
		if err := s.container.Start(ctx); err != nil {
			return fmt.Errorf("%w%s", err, s.lastWords())
		}
		return s.up(ctx)
	})
}

// act carries out one step while no other is under way.
func (s *Server) act(what string, from, to state, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step(what, from, to, f)
}

// step goes from one state (or, for an empty one, from any but down) to the next; s.mu is held.
func (s *Server) step(what string, from, to state, f func() error) error {
	if s.mu.state != from && (from != "" || s.mu.state == down || s.mu.state == closed) {
		return fmt.Errorf("%s the MinIO container: it is %s", what, s.mu.state)
	}
	err := f()
	if err == nil || to == down { // after a failure to end it nobody knows, and Start brings it back from there
		s.mu.state = to
	}
	if err != nil {
		return fmt.Errorf("%s the MinIO container: %w", what, err)
	}
	return nil
}

// lastWords are the last lines that the server has printed, for an error message.
func (s *Server) lastWords() string {
	if s.container == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	r, err := s.container.Logs(ctx)
	if err != nil {
		return ""
	}
	defer r.Close()
	text, _ := io.ReadAll(io.LimitReader(r, 64<<10)) // as far as it can be read
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if lines[0] == "" {
		return ""
	}
	return "; it printed: " + strings.Join(lines[max(0, len(lines)-3):], " | ")
}
