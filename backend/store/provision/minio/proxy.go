package minio

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// dialTimeout is how long the way to the container may take.
const dialTimeout = 5 * time.Second

// proxy forwards connections from a stable loopback address to one that changes. While it points nowhere, and where the
// other side refuses, connections are reset.
type proxy struct {
	listener *net.TCPListener
	ends     sync.WaitGroup

	mu struct {
		sync.Mutex
		upstream string
		closed   bool
		open     map[net.Conn]struct{} // both ends of each connection under way
	}
}

func newProxy() (*proxy, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("proxy before the MinIO container: %w", err)
	}
	p := &proxy{listener: l}
	p.mu.open = map[net.Conn]struct{}{}
	p.ends.Add(1)
	go p.serve()
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// point sends connections to addr from now on, or nowhere when it is empty, and resets those under way.
func (p *proxy) point(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.upstream = addr
	for c := range p.mu.open { // order-free: all of them
		reset(c)
	}
}

// close ends the proxy and all connections, and waits for them.
func (p *proxy) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.point("")
	p.ends.Wait()
}

// reset closes a connection so that the other side sees an error, not an end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // closed anyway
	}
	c.Close()
}

func (p *proxy) serve() {
	defer p.ends.Done()
	for {
		c, err := p.listener.AcceptTCP()
		if err != nil {
			if p.done() {
				return
			}
			time.Sleep(time.Millisecond) // out of descriptors, most likely
			continue
		}
		p.ends.Add(1)
		go func() {
			defer p.ends.Done()
			p.forward(c)
		}()
	}
}

func (p *proxy) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.closed
}

// forward carries one connection until both directions have ended. The bytes stay in the kernel where it can splice.
func (p *proxy) forward(c *net.TCPConn) {
	upstream := p.hold(c)
	defer p.release(c)
	if upstream == "" {
		return
	}
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.Dial("tcp", upstream)
	if err != nil {
		return
	}
	u := conn.(*net.TCPConn)
	if p.hold(u) != upstream { // it was pointed elsewhere meanwhile
		p.release(u)
		return
	}
	var both sync.WaitGroup
	for _, way := range [2][2]*net.TCPConn{{u, c}, {c, u}} {
		both.Add(1)
		go func() {
			defer both.Done()
			if _, err := io.Copy(way[0], way[1]); err != nil {
				reset(c)
				reset(u)
				return
			}
			_ = way[0].CloseWrite() // the other direction may go on
		}()
	}
	both.Wait()
	u.Close() // in good order, before the resets of release
	c.Close()
	p.release(u)
}

// hold enters a connection into the list of what point resets and returns where connections go.
func (p *proxy) hold(c net.Conn) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.open[c] = struct{}{}
	return p.mu.upstream
}

func (p *proxy) release(c net.Conn) {
	p.mu.Lock()
	delete(p.mu.open, c)
	p.mu.Unlock()
	reset(c)
}
