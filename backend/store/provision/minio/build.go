package minio

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The server's module and the version that is built.
const (
	module        = "github.com/minio/minio"
	moduleVersion = "v0.0.0-20260212201848-7aac2a2c5b7c"
)

// BuildTime is what a build from source takes, for messages.
const BuildTime = "3 to 10 minutes"

// Binary is a server built from its module; since it calls itself a development version, the checksum tells what it is.
type Binary struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Go      string `json:"go"` // the compiler
	Path    string `json:"-"`
}

// String is module, version, checksum and compiler.
func (b Binary) String() string {
	return fmt.Sprintf("%s %s built with %s, sha256 %s", b.Module, b.Version, b.Go, b.SHA256)
}

// folder is where the binary for an architecture is kept.
func (s Source) folder(arch string) (string, error) {
	root := s.Cache
	if root == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("where to keep MinIO: %w", err)
		}
		root = filepath.Join(cache, "statebench", "minio")
	}
	return filepath.Join(root, moduleVersion, "linux-"+arch), nil
}

// binary returns the server for an architecture from the cache, building it first where that is needed and allowed.
func (s Source) binary(ctx context.Context, arch string) (Binary, error) {
	dir, err := s.folder(arch)
	if err != nil {
		return Binary{}, err
	}
	b, err := cached(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	if s.NoBuild {
		return Binary{}, &NoImageError{"none was made before, and building one was forbidden"}
	}
	goTool, err := findGo()
	if err != nil {
		return Binary{}, &NoImageError{"building one takes the go command: " + err.Error()}
	}
	s.announce("building MinIO (AGPL, %s %s) from source into %s: once, %s", module, moduleVersion, dir, BuildTime)
	began := time.Now()
	if err := build(ctx, goTool, arch, dir); err != nil {
		return Binary{}, fmt.Errorf("build MinIO from source: %w", err)
	}
	s.announce("built MinIO in %v", time.Since(began).Round(time.Second))
	return cached(dir)
}

// The files of a folder of the cache. The record is written last: without it there is nothing.
const (
	binaryFile = "minio"
	recordFile = "build.json"
)

// cached reads what the cache holds. The error is fs.ErrNotExist where nothing is there, or something else than the record says.
func cached(dir string) (Binary, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return Binary{}, fmt.Errorf("cache of MinIO: %w", err)
	}
	var b Binary
	if err := json.Unmarshal(text, &b); err != nil {
		return Binary{}, fmt.Errorf("cache of MinIO: %s: %w", recordFile, fs.ErrNotExist)
	}
	b.Path = filepath.Join(dir, binaryFile)
	sum, err := checksum(b.Path)
	if err != nil {
		return Binary{}, fmt.Errorf("cache of MinIO: %w", err)
	}
	if sum != b.SHA256 {
		return Binary{}, fmt.Errorf("cache of MinIO: %s is not what %s says: %w", b.Path, recordFile, fs.ErrNotExist)
	}
	return b, nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// findGo finds the go command, also where it is installed but not on the path.
func findGo() (string, error) {
	path, err := exec.LookPath("go")
	if err == nil {
		return path, nil
	}
	const usual = "/usr/local/go/bin/go"
	if _, statErr := os.Stat(usual); statErr == nil {
		return usual, nil
	}
	return "", err
}

// build makes the binary in a module of its own, outside of any other, and moves it into dir when it is complete.
func build(ctx context.Context, goTool, arch, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bench-minio-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte("module minio.build\n\ngo 1.24\n"), 0o644); err != nil {
		return err
	}
	if _, err := runGo(ctx, goTool, work, arch, "get", module+"@"+moduleVersion); err != nil {
		return err
	}
	made, err := os.CreateTemp(dir, binaryFile+"-") // beside its place, so that it can be moved there in one step
	if err != nil {
		return err
	}
	made.Close()
	defer os.Remove(made.Name())
	if _, err := runGo(ctx, goTool, work, arch, "build", "-trimpath", "-ldflags", "-s -w", "-o", made.Name(), module); err != nil {
		return err
	}
	version, err := runGo(ctx, goTool, work, arch, "env", "GOVERSION")
	if err != nil {
		return err
	}
	sum, err := checksum(made.Name())
	if err != nil {
		return err
	}
	record, err := json.MarshalIndent(Binary{Module: module, Version: moduleVersion, SHA256: sum, Go: strings.TrimSpace(version)}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.Chmod(made.Name(), 0o755); err != nil {
		return err
	}
	if err := os.Rename(made.Name(), filepath.Join(dir, binaryFile)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recordFile), append(record, '\n'), 0o644)
}

// runGo runs the go command for the engine's platform and returns what it prints.
func runGo(ctx context.Context, goTool, dir, arch string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, goTool, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off", "GOFLAGS=", "GO111MODULE=on")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(problems.String())
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, text[max(0, len(text)-2000):])
	}
	return out.String(), nil
}
