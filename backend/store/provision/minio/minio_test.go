package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/backend/store/s3store"
	"statebench.dev/bench/backend/store/storetest"
)

// What the test binary does when it is run again.
const childVar = "BENCH_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childVar) {
	case "guard":
		err = Guard()
	case "crash":
		err = crash()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func options() Options {
	return Options{Source: Source{Announce: func(text string) { fmt.Fprintln(os.Stderr, text) }},
		Guard: GuardOptions{Args: []string{}, Env: []string{childVar + "=guard"}}}
}

// engine connects, or skips where there is none and none is required.
func engine(t *testing.T) *Engine {
	t.Helper()
	e, err := Connect(t.Context())
	var none *NoEngineError
	if errors.As(err, &none) && os.Getenv("BENCH_REQUIRE_CONTAINERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func startServer(t *testing.T) *Server {
	t.Helper()
	engine(t)
	s, err := Start(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func bucketOf(t *testing.T, s *Server, name string) store.Bucket {
	t.Helper()
	access, secret := s.Credentials()
	b, err := s3store.Open(t.Context(), s3store.Options{Endpoint: s.Endpoint(), Bucket: name, AccessKey: access, SecretKey: secret, CreateBucket: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMinIOIsAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes half a minute")
	}
	s := startServer(t)
	n := 0
	storetest.Run(t, func(t *testing.T) store.Bucket {
		n++
		return bucketOf(t, s, fmt.Sprintf("suite-%d", n))
	}, storetest.Options{Big: 40 << 20, Races: 10, Racers: 8, Lacks: lacks, AbortsAgain: true})
	b := bucketOf(t, s, "refused")
	for _, key := range storetest.OddKeys() {
		if key[0] == '/' && key != "//" {
			continue // taken for the key without the slash
		}
		if err := b.Put(t.Context(), key, nil, store.PutOptions{}); refuses(key) != errors.Is(err, store.ErrKey) {
			t.Errorf("Put(%.80q): %v", key, err)
		}
	}
}

// lacks tells which of the odd keys MinIO refuses, and which it does not list, since they lie below another that is one.
func lacks(key string) bool {
	below := slices.ContainsFunc(storetest.OddKeys(), func(of string) bool {
		return len(of) < len(key) && !refuses(of) && strings.HasPrefix(key, strings.TrimSuffix(of, "/")+"/") && key != of+"/"
	})
	return below || refuses(key)
}

// refuses tells which keys MinIO does not take: its disk is a folder, and a part of a key a name in it.
func refuses(key string) bool {
	if strings.HasPrefix(key, "/") || strings.Contains(key, "//") || strings.Contains(key, "\x00") {
		return true
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." || len(part) > 255 {
			return true
		}
	}
	return false
}

// TestUploadsAreKnownAfterARestart leaves an upload open and kills the server, which forgets what it could list.
func TestUploadsAreKnownAfterARestart(t *testing.T) {
	s := startServer(t)
	b := bucketOf(t, s, "bucket")
	u, err := b.(store.MultipartBeginner).BeginUpload(t.Context(), "base/1", []byte("part"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Kill(t.Context()), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Uploads(t.Context(), "base/"); err != nil || len(got) != 1 || got[0] != u {
		t.Errorf("Uploads: %v, %v; want %v", got, err, u)
	}
	if err := b.AbortUpload(t.Context(), u); err != nil {
		t.Error(err)
	}
	if got, err := b.Uploads(t.Context(), ""); err != nil || len(got) != 0 {
		t.Errorf("Uploads after AbortUpload: %v, %v", got, err)
	}
}

// TestAddressStaysAndDataSurvives takes the server through all that can be done to it.
func TestAddressStaysAndDataSurvives(t *testing.T) {
	s := startServer(t)
	ctx := t.Context()
	b := bucketOf(t, s, "bucket")
	address := s.Endpoint()
	if host, _, _ := net.SplitHostPort(address); host != "127.0.0.1" {
		t.Errorf("endpoint %s is not on the loopback address", address)
	}
	if err := b.Put(ctx, "kept", []byte("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
	}{{"stop", s.Stop}, {"kill", s.Kill}, {"stop", s.Stop}} {
		if err := c.do(ctx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if _, err := b.Get(ctx, "kept"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("after %s: Get returns %v", c.name, err)
		}
		if s.PID() != 0 {
			t.Errorf("after %s: it still has process %d", c.name, s.PID())
		}
		if err := c.do(ctx); err == nil {
			t.Errorf("%s of a server that is down passes", c.name)
		}
		began := time.Now()
		if err := s.Start(ctx); err != nil {
			t.Fatalf("start after %s: %v", c.name, err)
		}
		t.Logf("start after %s: %v", c.name, time.Since(began))
		if got, err := b.Get(ctx, "kept"); err != nil || string(got) != "x" || s.Endpoint() != address || s.PID() == 0 {
			t.Errorf("after %s and start: Get = %q, %v; endpoint %s, before %s; process %d", c.name, got, err, s.Endpoint(), address, s.PID())
		}
	}
	if err := s.Start(ctx); err != nil {
		t.Errorf("start of a server that runs: %v", err)
	}
}

func TestPausedServerHangsAndGoesOn(t *testing.T) {
	s := startServer(t)
	ctx := t.Context()
	b := bucketOf(t, s, "bucket")
	if err := s.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := b.Put(short, "cancelled", []byte("x"), store.PutOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put to a paused server: %v", err)
	}
	answer := make(chan error, 1)
	go func() { answer <- b.Put(ctx, "waiting", []byte("x"), store.PutOptions{}) }()
	if err := s.Pause(ctx); err == nil {
		t.Error("a second pause passes")
	}
	if err := s.Start(ctx); err != nil { // resumes
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("Put that waited: %v", err)
	}
	if err := s.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx); err != nil {
		t.Errorf("kill of a paused server: %v", err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(ctx, "waiting"); err != nil {
		t.Error(err)
	}
	if err := s.Pause(ctx); err != nil { // and Close of a paused one, at the end
		t.Fatal(err)
	}
}

// TestCloseLeavesNothing looks at the engine, the proxy and the guard after Close.
func TestCloseLeavesNothing(t *testing.T) {
	e := engine(t)
	began := time.Now()
	s, err := Start(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("start: %v", time.Since(began))
	info, err := e.client.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hc := info.Container.HostConfig
	if hc.Memory != DefaultMemory || hc.NanoCPUs <= 0 {
		t.Errorf("limits: %d bytes, %d nano-CPUs", hc.Memory, hc.NanoCPUs)
	}
	for p, bindings := range info.Container.NetworkSettings.Ports {
		for _, b := range bindings {
			if !b.HostIP.IsLoopback() {
				t.Errorf("%v is published on %v", p, b.HostIP)
			}
		}
	}
	began = time.Now()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("close: %v", time.Since(began))
	if _, err := e.client.ContainerInspect(t.Context(), s.ID(), client.ContainerInspectOptions{}); !gone(err) {
		t.Errorf("container after Close: %v", err)
	}
	if c, err := net.Dial("tcp", s.Endpoint()); err == nil {
		c.Close()
		t.Error("the proxy is still there")
	}
	if err := s.guard.cmd.Process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the guard is still there: %v", err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("start after Close passes")
	}
}

// TestReapSparesTheLiving labels containers as those of a dead and of a living process, and of another machine.
func TestReapSparesTheLiving(t *testing.T) {
	e := engine(t)
	img, err := e.Resolve(t.Context(), options().Source)
	if err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	label := func(change map[string]string) map[string]string {
		l := ownLabels(roleStore)
		for k, v := range change {
			l[k] = v
		}
		return l
	}
	pid := fmt.Sprint(ended.Process.Pid)
	ids := map[string]string{}
	for name, l := range map[string]map[string]string{
		"living":     label(nil),
		"dead":       label(map[string]string{labelPID: pid}),
		"used again": label(map[string]string{labelBegan: "1"}),
		"rebooted":   label(map[string]string{labelBoot: "another"}),
		"elsewhere":  label(map[string]string{labelPID: pid, labelHost: "another"}),
		"kept up":    label(map[string]string{labelPID: pid, labelRole: roleEnv}),
	} {
		req := e.request(img, Options{}, "access", "secretsecret")
		req.Started, req.Labels = false, l
		c, err := testcontainers.GenericContainer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = c.GetContainerID()
		t.Cleanup(func() {
			_, err := e.client.ContainerRemove(context.Background(), c.GetContainerID(), client.ContainerRemoveOptions{Force: true})
			if err != nil && !gone(err) {
				t.Error(err)
			}
		})
	}
	removed, err := e.Reap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("removed %d containers", len(removed))
	left, err := e.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, c := range left {
		there[c.ID] = true
	}
	for name, want := range map[string]bool{"living": true, "dead": false, "used again": false, "rebooted": false, "elsewhere": true, "kept up": true} {
		if there[ids[name]] != want {
			t.Errorf("%s: there is %v, want %v", name, there[ids[name]], want)
		}
	}
}

// crash starts a server and dies without a word.
func crash() error {
	s, err := Start(context.Background(), options())
	if err != nil {
		return err
	}
	fmt.Println(s.ID())
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	_ = self.Kill()
	select {}
}

// TestGuardRemovesWhatAKilledProcessLeft kills a process that has a server.
func TestGuardRemovesWhatAKilledProcessLeft(t *testing.T) {
	e := engine(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=crash")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	id := strings.TrimSpace(out.String())
	if err == nil || id == "" {
		t.Fatalf("%v, printed %q %q", err, id, problems.String())
	}
	wait := client.ContainerWaitOptions{Condition: "removed"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := e.client.ContainerWait(ctx, id, wait)
	select {
	case <-w.Result:
	case err := <-w.Error:
		if !gone(err) {
			t.Fatal(err)
		}
	}
	if _, err := e.client.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); !gone(err) {
		t.Errorf("the container is still there: %v", err)
	}
}

func TestEnvStaysUntilItIsTakenDown(t *testing.T) {
	e := engine(t)
	if v, err := e.Status(t.Context()); err != nil || v.ID != "" {
		t.Skipf("an environment is up already: %v %v", v, err)
	}
	made := 0
	bucket := func(ctx context.Context, v Env) error {
		made++
		_, err := s3store.Open(ctx, s3store.Options{Endpoint: v.Endpoint, Bucket: "bucket", AccessKey: v.Access, SecretKey: v.Secret, CreateBucket: true})
		return err
	}
	first, err := e.Up(t.Context(), options(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Up(t.Context(), options(), bucket)
	if err != nil || second != first || made != 1 {
		t.Errorf("second Up: %+v, %v; first %+v; %d buckets made", second, err, first, made)
	}
	resp, err := http.Get("http://" + first.Endpoint + readyPath)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if removed, err := e.Down(t.Context()); err != nil || len(removed) == 0 {
		t.Errorf("Down: %v, %v", removed, err)
	}
	failing := func(context.Context, Env) error { return errors.New("no bucket") }
	if _, err := e.Up(t.Context(), options(), failing); err == nil {
		t.Error("Up passes without its bucket")
	}
	if v, err := e.Status(t.Context()); err != nil || v.ID != "" {
		t.Errorf("after Down and a failed Up: %+v, %v", v, err)
	}
}

func TestNoImageNamesTheWaysOn(t *testing.T) {
	e := engine(t)
	empty := Source{NoBuild: true, Cache: t.TempDir()}
	if _, err := empty.binary(t.Context(), e.arch); !isNoImage(err) {
		t.Errorf("nothing there and no build: %v", err)
	}
	for _, s := range []Source{
		{Image: "bench.invalid/minio:latest"},
		{Image: "bench.invalid/minio:latest", Pull: true},
		{Image: "bench.invalid/minio@sha256:" + strings.Repeat("0", 64)},
	} {
		if _, err := e.Resolve(t.Context(), s); !isNoImage(err) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func isNoImage(err error) bool {
	var none *NoImageError
	return errors.As(err, &none) && strings.Contains(err.Error(), "--store embedded")
}

// TestCacheIsCheckedBeforeItIsUsed damages a cached binary.
func TestCacheIsCheckedBeforeItIsUsed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(binaryFile, "server")
	sum, err := checksum(filepath.Join(dir, binaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cached(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a record: %v", err)
	}
	write(recordFile, `{"module": "m", "version": "v1", "sha256": "`+sum+`", "go": "go1"}`)
	if b, err := cached(dir); err != nil || b.Path != filepath.Join(dir, binaryFile) || b.Version != "v1" {
		t.Errorf("%+v, %v", b, err)
	}
	write(binaryFile, "another")
	if _, err := cached(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another binary: %v", err)
	}
}

func TestGuardRefusesToBeStartedByHand(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=guard")
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("by hand")) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNoEngineIsAClearError runs a process that finds none.
func TestNoEngineIsAClearError(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=crash", envEngine+"=unix://"+filepath.Join(t.TempDir(), "absent.sock"))
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("no container engine")) || !bytes.Contains(out, []byte("--store embedded")) {
		t.Errorf("%v: %s", err, out)
	}
}

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
