package minio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// NoEngineError says that there is no container engine, and what to do.
type NoEngineError struct{ Err error }

// Error names the cause, the remedy and the way without an engine.
func (e *NoEngineError) Error() string {
	return fmt.Sprintf("no container engine: %v; install and start one (on Debian as root: apt-get install docker.io, then dockerd), "+
		"or take the store that needs none: --store embedded", e.Err)
}

// Unwrap returns the cause.
func (e *NoEngineError) Unwrap() error { return e.Err }

// Engine is a connection to the container engine.
type Engine struct {
	client *testcontainers.DockerClient
	cpus   int
	arch   string // as Go writes it
	about  string
	host   string // where published ports are, when the user has said so
	local  bool   // on this machine
}

const (
	envNoReaper = "TESTCONTAINERS_RYUK_DISABLED"
	envHost     = "TESTCONTAINERS_HOST_OVERRIDE"
	envEngine   = "DOCKER_HOST"
	loopback    = "127.0.0.1"
)

// prepare tells the container library how to behave. It reads its settings once a process, so they come before its first
// call: no reaper container, which would have to be pulled; and published ports on the loopback address, since inside of
// what looks like a container it would take the default gateway of the machine for the engine's host.
func prepare() error {
	if err := os.Setenv(envNoReaper, "true"); err != nil {
		return err
	}
	if _, set := os.LookupEnv(envHost); !set {
		if err := os.Setenv(envHost, loopback); err != nil {
			return err
		}
	}
	tclog.SetDefault(tclog.NewNoopLogger())
	return nil
}

// Connect finds the engine and asks it what it is. It returns a *NoEngineError where none answers.
func Connect(ctx context.Context) (*Engine, error) {
	if err := prepare(); err != nil {
		return nil, &NoEngineError{err}
	}
	c, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, &NoEngineError{err}
	}
	if want := os.Getenv(envEngine); want != "" && want != c.DaemonHost() { // the library goes on to the next one it knows
		return nil, &NoEngineError{errors.Join(fmt.Errorf("%s=%s does not answer", envEngine, want), c.Close())}
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, &NoEngineError{errors.Join(err, c.Close())}
	}
	i := info.Info
	e := &Engine{client: c, cpus: i.NCPU, arch: goArch(i.Architecture), host: os.Getenv(envHost), local: strings.HasPrefix(c.DaemonHost(), "unix:")}
	e.about = fmt.Sprintf("%s at %s, storage %s, %s", i.ServerVersion, c.DaemonHost(), i.Driver, i.OperatingSystem)
	return e, nil
}

// goArch is the name that Go has for an architecture as the kernel writes it.
func goArch(uname string) string {
	switch uname {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return uname
}

// String describes the engine for people.
func (e *Engine) String() string { return e.about }

// Close closes the connection.
func (e *Engine) Close() error { return e.client.Close() }

// checkHost refuses an address of published ports that is not the loopback one, unless the user gave it.
func (e *Engine) checkHost(host string) error {
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	if e.host == host && e.host != loopback {
		return nil
	}
	return fmt.Errorf("the engine publishes ports on %s, which is not this machine: name the address in %s if that is meant", host, envHost)
}

// gone tells whether err says that the thing does not exist, or is being removed by somebody else.
func gone(err error) bool {
	return errdefs.IsNotFound(err) || errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")
}
