package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"statebench.dev/bench/internal/plan"
)

// Bounds on files that are read as a whole, in bytes.
const (
	maxWhole = 256 << 20
	maxPlan  = 16 << 20
)

// open opens a file to read it. What is no regular file is damage: a pipe would keep the reader waiting, a device never ends.
func open(path string) (*os.File, error) {
	info, err := os.Stat(path) // before it is opened, which may wait too
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, damaged(path, 0, err)
	}
	return f, nil
}

// readWhole reads a file of at most limit bytes.
func readWhole(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	info, err := f.Stat()
	switch {
	case err == nil && info.Size() > limit:
		err = fmt.Errorf("longer than %d bytes", limit)
	case err == nil:
		b.Grow(int(info.Size()) + bytes.MinRead)
		_, err = b.ReadFrom(io.LimitReader(f, limit))
	}
	if err != nil {
		return nil, damaged(path, 0, err)
	}
	return b.Bytes(), nil
}

// ReadJSON reads one JSON value; an error wraps ErrDamaged and names the file.
func ReadJSON(path string, v any) error {
	b, err := readWhole(path, maxWhole)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return damaged(path, 0, err)
	}
	return nil
}

// ReadPlan reads a run's plan and returns it with its hash, as the first event of the run's history has it; an error wraps
// ErrDamaged and names the file.
func ReadPlan(path string) (p plan.Plan, hash string, err error) {
	b, err := readWhole(path, maxPlan)
	if err != nil {
		return p, "", err
	}
	if p, err = plan.Read(bytes.NewReader(b)); err != nil {
		return p, "", damaged(path, 0, err)
	}
	var compact bytes.Buffer // written indented, hashed without
	if err := json.Compact(&compact, b); err != nil {
		return p, "", damaged(path, 0, err)
	}
	sum := sha256.Sum256(compact.Bytes())
	return p, hex.EncodeToString(sum[:]), nil
}
