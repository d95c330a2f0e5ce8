package minio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

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
