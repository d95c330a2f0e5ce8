package minio

import (
	"io"
	"net"
	"testing"
)

// TestProxyFollowsItsTarget points a proxy from one server to another and to none.
func TestProxyFollowsItsTarget(t *testing.T) {
	target := func(text string) string {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					in, _ := io.ReadAll(c)
					_, _ = c.Write([]byte(text + string(in)))
					c.Close()
				}()
			}
		}()
		return l.Addr().String()
	}
	p, err := newProxy()
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (string, error) {
		c, err := net.Dial("tcp", p.addr())
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := c.Write([]byte("in")); err != nil {
			return "", err
		}
		_ = c.(*net.TCPConn).CloseWrite()
		out, err := io.ReadAll(c)
		return string(out), err
	}
	for _, name := range []string{"a", "b"} {
		p.point(target(name))
		if got, err := ask(); got != name+"in" || err != nil {
			t.Errorf("got %q, %v; want that of %s", got, err, name)
		}
	}
	hanging, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	if _, err := hanging.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	p.point("")
	if _, err := hanging.Read(make([]byte, 1)); err == nil {
		t.Error("a connection survives the end of its target")
	}
	if _, err := ask(); err == nil {
		t.Error("a proxy that points nowhere answers")
	}
	p.close()
}
