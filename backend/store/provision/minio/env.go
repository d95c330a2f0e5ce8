package minio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Env is a server that stays up between commands, at a fixed port.
type Env struct {
	Container
	Endpoint       string // host:port
	Access, Secret string
	Image          string
}

// Up starts a server that stays until Down, or returns the one that is up. bucket is called with a new one, to
// make its bucket.
func (e *Engine) Up(ctx context.Context, o Options, bucket func(ctx context.Context, v Env) error) (v Env, err error) {
	if v, err := e.Status(ctx); err != nil || v.ID != "" {
		return v, err
	}
	img, err := e.Resolve(ctx, o.Source)
	if err != nil {
		return Env{}, err
	}
	fixed, err := freePort()
	if err != nil {
		return Env{}, err
	}
	req := e.request(img, o, newSecret(10), newSecret(20))
	req.Labels = ownLabels(roleEnv)
	modify := req.HostConfigModifier
	req.HostConfigModifier = func(hc *container.HostConfig) {
		modify(hc)
		b := hc.PortBindings[network.MustParsePort(port)]
		b[0].HostPort = fixed
	}
	c, err := testcontainers.GenericContainer(ctx, req)
	if err == nil {
		if v, err = e.Status(ctx); err == nil {
			err = bucket(ctx, v)
		}
	}
	if err != nil {
		s := Server{engine: e, container: c}
		words := s.lastWords()
		if c != nil {
			err = errors.Join(err, s.remove())
		}
		return Env{}, fmt.Errorf("start MinIO in a container: %w%s", err, words)
	}
	return v, nil
}

// freePort finds a port that is free on the loopback address now.
func freePort() (string, error) {
	l, err := net.Listen("tcp4", loopback+":0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	return p, err
}

// Status returns the server of Up, a zero Env where there is none.
func (e *Engine) Status(ctx context.Context) (Env, error) {
	list, err := e.Containers(ctx)
	if err != nil {
		return Env{}, err
	}
	for _, c := range list {
		if c.Role != roleEnv {
			continue
		}
		r, err := e.client.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil {
			return Env{}, fmt.Errorf("look at container %.12s: %w", c.ID, err)
		}
		v := Env{Container: c, Image: r.Container.Config.Labels[labelVersion]}
		for _, pair := range r.Container.Config.Env {
			switch key, value, _ := strings.Cut(pair, "="); key {
			case "MINIO_ROOT_USER":
				v.Access = value
			case "MINIO_ROOT_PASSWORD":
				v.Secret = value
			}
		}
		for _, b := range r.Container.HostConfig.PortBindings[network.MustParsePort(port)] {
			v.Endpoint = net.JoinHostPort(e.host, b.HostPort)
		}
		return v, e.checkHost(e.host)
	}
	return Env{}, nil
}

// Down removes the server of Up and what dead processes have left, and returns what it removed.
func (e *Engine) Down(ctx context.Context) ([]Container, error) {
	return e.removeAll(ctx, func(c Container) bool { return c.Dead || c.Role == roleEnv })
}
