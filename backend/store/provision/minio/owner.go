package minio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// The labels of our containers. A container belongs to the process that started it: its number, when it began (numbers are
// used again), and the machine and boot that the number is of.
const (
	labelRole    = "dev.statebench.role"
	labelPID     = "dev.statebench.pid"
	labelBegan   = "dev.statebench.pid-began"
	labelHost    = "dev.statebench.host"
	labelBoot    = "dev.statebench.boot"
	labelStarted = "dev.statebench.started"

	roleStore = "store" // lives as long as its process
	roleEnv   = "env"   // lives until it is taken down
)

// ownLabels are those of a container that this process starts.
func ownLabels(role string) map[string]string {
	return map[string]string{
		labelRole: role, labelPID: strconv.Itoa(os.Getpid()), labelBegan: began(os.Getpid()),
		labelHost: hostname(), labelBoot: boot(), labelStarted: time.Now().UTC().Format(time.RFC3339),
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// boot identifies the present life of the machine; empty where that is not known.
func boot() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}

// began is when a process began, in the kernel's ticks since the boot; empty when there is none or it is not known.
func began(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The second field is the name in parentheses and may hold blanks; the state is field 3, the start is field 22.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" { // a zombie has ended, nobody has asked how
		return ""
	}
	return fields[19]
}

// dead tells whether the process that the labels name has surely ended. Of another machine nobody here knows.
func dead(labels map[string]string) bool {
	pid, err := strconv.Atoi(labels[labelPID])
	if err != nil || labels[labelHost] != hostname() {
		return false
	}
	if labels[labelBoot] != boot() {
		return true
	}
	return alive(pid, labels[labelBegan]) == no
}

// answer is what is known of a process.
type answer int

const (
	no answer = iota
	yes
	unknown
)

// alive asks for a process by its number and start.
func alive(pid int, start string) answer {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return unknown
	}
	if now := began(pid); now == "" || start != "" && now != start {
		return no
	}
	return yes
}

// Container is one of our containers.
type Container struct {
	ID      string
	Role    string // store or env
	PID     int    // who started it
	Started string // RFC 3339
	State   string // running, paused, exited, ...
	Dead    bool   // it belongs to a run and its process has ended
}

// Containers lists ours, of all processes, oldest first.
func (e *Engine) Containers(ctx context.Context) ([]Container, error) {
	list, err := e.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelRole)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var out []Container
	for _, c := range list.Items {
		pid, _ := strconv.Atoi(c.Labels[labelPID]) // 0 for what is not ours to judge
		role := c.Labels[labelRole]
		out = append(out, Container{ID: c.ID, Role: role, PID: pid, Started: c.Labels[labelStarted], State: string(c.State),
			Dead: role == roleStore && dead(c.Labels)})
	}
	slices.SortFunc(out, func(a, b Container) int { return strings.Compare(a.Started+a.ID, b.Started+b.ID) })
	return out, nil
}

// Reap removes the containers of runs whose process has ended and returns them.
func (e *Engine) Reap(ctx context.Context) ([]Container, error) {
	return e.removeAll(ctx, func(c Container) bool { return c.Dead })
}

func (e *Engine) removeAll(ctx context.Context, which func(Container) bool) ([]Container, error) {
	list, err := e.Containers(ctx)
	if err != nil {
		return nil, err
	}
	var removed []Container
	var errs []error
	for _, c := range list {
		if !which(c) {
			continue
		}
		_, err := e.client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil:
			removed = append(removed, c)
		case !gone(err):
			errs = append(errs, fmt.Errorf("remove container %.12s, left by process %d: %w", c.ID, c.PID, err))
		}
	}
	return removed, errors.Join(errs...)
}
