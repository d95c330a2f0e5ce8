// Package minio brings up a MinIO server in a container of its own and takes it down again, whatever happens to the
// process that asked for it.
//
// The steps of use: Start finds a container engine and an image (Resolve: a local one, one imported from a binary that is
// built once from the server's source, or one pulled by digest), starts a container with limits, published on the loopback
// address only, and waits until the whole server is ready, which is later than it is alive. The server is reached
// through a proxy in this process, whose address stays the same while that of the container changes with each start:
//
//	client -> 127.0.0.1:stable (proxy) -> 127.0.0.1:mapped (engine) -> container:9000
//
// Close removes the container. Two things cover the ends at which nobody calls Close: a guard, a child process of the
// same binary that removes the container once this process is gone, and Reap, by which every start removes what a dead
// process has left. MinIO is under the AGPL: it is a separate process that is talked to by HTTP and never linked.
package minio

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// DefaultCPUs and DefaultMemory (bytes) are the limits of a container where Options give none.
const (
	DefaultCPUs   = 2.0
	DefaultMemory = 1 << 30
)

const (
	port         = "9000/tcp"
	readyPath    = "/minio/health/cluster" // /minio/health/live answers before a bucket can be made
	readyTimeout = time.Minute
	readyPoll    = 20 * time.Millisecond
	stopTimeout  = 5 * time.Second
	closeTimeout = 30 * time.Second
)

// Options say how to start a server; the zero value does for a run.
type Options struct {
	Source
	// CPUs and Memory (bytes) limit the container; 0 means DefaultCPUs, cut to what the engine has, and DefaultMemory.
	CPUs   float64
	Memory int64
	// Guard says how the binary is run again as the guard of the container.
	Guard GuardOptions
}

// Server is a MinIO server in a container. Its methods are safe for concurrent use; those that act on the container go one
// after the other.
type Server struct {
	image     Image
	engine    *Engine
	container testcontainers.Container
	proxy     *proxy
	guard     *guard
	access    string
	secret    string

	mu struct {
		sync.Mutex
		state state
		pid   int
	}
}

// state is what the container does.
type state string

const (
	running state = "running"
	paused  state = "paused"
	down    state = "down"
	closed  state = "closed"
)

// Start brings up a server with an empty disk and returns once it serves. It returns a *NoEngineError where there is no
// container engine and a *NoImageError where there is no image and none may be made. Nothing is left behind on an error.
func Start(ctx context.Context, o Options) (*Server, error) {
	e, err := Connect(ctx)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, e, o)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return s, nil
}

func start(ctx context.Context, e *Engine, o Options) (s *Server, err error) {
	if _, err := e.Reap(ctx); err != nil {
		return nil, err
	}
	s = &Server{engine: e}
	if s.image, err = e.Resolve(ctx, o.Source); err != nil {
		return nil, err
	}
	s.access, s.secret = newSecret(10), newSecret(20)
	if s.proxy, err = newProxy(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.guard, err = startGuard(o.Guard); err != nil {
		return nil, err
	}
	req := e.request(s.image, o, s.access, s.secret)
	req.Labels = ownLabels(roleStore)
	s.container, err = testcontainers.GenericContainer(ctx, req)
	if err != nil { // a container that did not get ready is returned along with the error
		return nil, fmt.Errorf("start MinIO in a container: %w%s", err, s.lastWords())
	}
	return s, s.up(ctx)
}

// newSecret returns n random bytes as text.
func newSecret(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// request describes the container.
func (e *Engine) request(img Image, o Options, access, secret string) testcontainers.GenericContainerRequest {
	cpus, memory := o.CPUs, o.Memory
	if cpus == 0 {
		cpus = DefaultCPUs
	}
	if memory == 0 {
		memory = DefaultMemory
	}
	cpus = min(cpus, float64(e.cpus)) // the engine refuses more than there are
	return testcontainers.GenericContainerRequest{
		Started: true,
		Logger:  tclog.NewNoopLogger(),
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        img.ID, // by id: what is there is what is run, and nothing is ever pulled by a name
			ExposedPorts: []string{port},
			Cmd:          []string{"server", "/data", "--address", ":9000", "--quiet"},
			Env: map[string]string{
				"MINIO_ROOT_USER": access, "MINIO_ROOT_PASSWORD": secret,
				"MINIO_BROWSER": "off", "MINIO_UPDATE": "off",
			},
			HostConfigModifier: func(hc *container.HostConfig) {
				hc.NanoCPUs, hc.Memory, hc.MemorySwap = int64(cpus*1e9), memory, memory
				hc.CapDrop = []string{"ALL"}
				hc.SecurityOpt = []string{"no-new-privileges"}
				hc.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: netip.MustParseAddr("127.0.0.1")}}}
			},
			WaitingFor: wait.ForHTTP(readyPath).WithPort(port).WithPollInterval(readyPoll).WithStartupTimeout(readyTimeout),
		},
	}
}

// up points the proxy at the container as it was started last; s.mu is held, or nobody has s yet.
func (s *Server) up(ctx context.Context) error {
	host, err := s.container.Host(ctx)
	if err != nil {
		return fmt.Errorf("address of the MinIO container: %w", err)
	}
	mapped, err := s.container.MappedPort(ctx, port)
	if err != nil {
		return fmt.Errorf("port of the MinIO container: %w", err)
	}
	if err := s.engine.checkHost(host); err != nil {
		return err
	}
	info, err := s.container.Inspect(ctx)
	if err != nil {
		return fmt.Errorf("look at the MinIO container: %w", err)
	}
	s.proxy.point(net.JoinHostPort(host, strconv.Itoa(int(mapped.Num()))))
	s.mu.state, s.mu.pid = running, info.State.Pid
	return nil
}

// Endpoint is the address as "host:port"; it stays the same for the life of s.
func (s *Server) Endpoint() string { return s.proxy.addr() }

// Credentials are drawn anew for each server; whoever has them owns it.
func (s *Server) Credentials() (access, secret string) { return s.access, s.secret }

// Image is what the container was made from.
func (s *Server) Image() Image { return s.image }

// About names the image, with version and checksum or digest.
func (s *Server) About() string { return s.image.String() }

// ID is the container's id.
func (s *Server) ID() string { return s.container.GetContainerID() }

// PID is the server's process on the engine's machine, 0 while it is down or where that is another machine.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state == down || !s.engine.local {
		return 0
	}
	return s.mu.pid
}

// Close removes the container and ends all that was started for it. It needs no context, since it runs when everything
// else has been called off; it takes half a minute at most and may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state == closed {
		return nil
	}
	s.mu.state = closed
	var errs []error
	if s.proxy != nil {
		s.proxy.close()
	}
	if s.container != nil {
		errs = append(errs, s.remove())
	}
	if s.guard != nil {
		s.guard.dismiss(errors.Join(errs...) == nil)
	}
	return errors.Join(append(errs, s.engine.Close())...)
}

// remove takes the container away, by force where it does not end by itself.
func (s *Server) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := testcontainers.TerminateContainer(s.container, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
	if err == nil {
		return nil
	}
	_, forced := s.engine.client.ContainerRemove(ctx, s.ID(), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if forced == nil || gone(forced) {
		return nil
	}
	return fmt.Errorf("remove the MinIO container %.12s: %w", s.ID(), err)
}
