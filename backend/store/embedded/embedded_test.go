package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/embedded"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/backend/store/storetest"
)

// The test binary runs again as a child, or as a parent that is to be killed.
const role = "BENCH_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "child":
		if err := embedded.ServeChild(os.Args[1:]...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case "parent":
		s, err := embedded.Start(context.Background(), options())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(s.Socket())
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func options() embedded.Options {
	return embedded.Options{Args: []string{}, Env: []string{role + "=child"}}
}

func start(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// client returns an S3 client of s; trusted chooses unsigned bodies, else they are framed as aws-chunked.
func client(t testing.TB, s *embedded.Server, bucket string, trusted bool) store.Bucket {
	t.Helper()
	tr, err := s3store.Transport(false, s3store.DefaultHeaderTimeout)
	if err != nil {
		t.Fatal(err)
	}
	tr.Proxy, tr.DialContext = nil, s.Dial
	b, err := s3store.Open(t.Context(), s3store.Options{
		Endpoint: "localhost", Bucket: bucket, Transport: tr, Trusted: trusted, CreateBucket: true, AccessKey: "a", SecretKey: "s",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	s := start(t)
	n := 0
	storetest.Run(t, func(t *testing.T) store.Bucket {
		n++
		return client(t, s, fmt.Sprintf("bucket-%d", n), true)
	}, storetest.Options{})
	u, err := s.Usage()
	if err != nil || u.CPU <= 0 || u.RSS <= 0 {
		t.Errorf("Usage = %+v, %v", u, err)
	}
}

func TestFramedBodiesComeBackWhole(t *testing.T) {
	b := client(t, start(t), "framed", false)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 1 << 20, 17 << 20, 33 << 20} {
		body := storetest.Pattern(3, size)
		key := fmt.Sprint(size)
		if err := b.Put(t.Context(), key, body, store.PutOptions{}); err != nil {
			t.Fatalf("Put of %d bytes: %v", size, err)
		}
		if got, err := b.Get(t.Context(), key); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
	}
}

func TestChildEndsWithKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), role+"=parent")
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimSpace(line)
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the socket: %v, %v", info.Mode(), err)
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A request first: a connection that the server has not accepted would not tell of its end.
	if _, err := io.WriteString(conn, "HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if status, err := r.ReadString('\n'); err != nil || !strings.Contains(status, "404") {
		t.Fatalf("%q, %v", status, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	if _, err := io.Copy(io.Discard, r); err != nil && !errors.Is(err, io.EOF) {
		t.Logf("connection ended with %v", err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder of the socket is left: %v", err)
	}
}

func TestStopEndsChildAndRequests(t *testing.T) {
	s := start(t)
	b := client(t, s, "stopped", true)
	if err := b.Put(t.Context(), "k", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	<-s.Done()
	if _, err := b.Get(t.Context(), "k"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := b.Put(t.Context(), "l", nil, store.PutOptions{}); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrAmbiguous) {
		t.Errorf("Put: %v, want ErrUnavailable, since no connection came about", err)
	}
	if _, err := os.Stat(filepath.Dir(s.Socket())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder of the socket is left: %v", err)
	}
}

func TestStartReportsChildThatFails(t *testing.T) {
	_, err := embedded.Start(t.Context(), embedded.Options{Args: []string{"one-too-many"}, Env: []string{role + "=child"}})
	if err == nil || !strings.Contains(err.Error(), "2 arguments") {
		t.Errorf("Start: %v, want the child's words", err)
	}
	_, err = embedded.Start(t.Context(), embedded.Options{Exe: filepath.Join(t.TempDir(), "absent")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start of no binary: %v", err)
	}
}
