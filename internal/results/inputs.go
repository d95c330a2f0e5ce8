package results

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"statebench.dev/bench/internal/plan"
)

// OpenInput opens an input of a plan: the file that the plan names, or, for a stored plan, its copy in the invocation.
// Content that is not what the plan's hash says wraps ErrDamaged, at the latest when it was read to its end.
func OpenInput(d Dir, in plan.Input) (io.ReadCloser, error) {
	path := in.File
	if path == "" {
		if b, err := hex.DecodeString(in.SHA256); err != nil || len(b) != sha256.Size {
			return nil, damaged(d.Path(InputsDir), 0, fmt.Errorf("input %q has hash %q", in.Path, in.SHA256))
		}
		path = d.Path(InputsDir, in.SHA256)
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, errors.Join(damaged(path, 0, err), f.Close())
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != in.SHA256 {
		return nil, errors.Join(damaged(path, 0, fmt.Errorf("sha256 is %s, want %s", got, in.SHA256)), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(damaged(path, 0, err), f.Close())
	}
	return f, nil
}

// KeepInput copies an input file into the invocation under its hash, so that the results can be judged and repeated without it.
func KeepInput(d Dir, in plan.Input) error {
	if err := os.MkdirAll(d.Path(InputsDir), 0o755); err != nil {
		return fmt.Errorf("keep input %s: %w", in.Path, err)
	}
	f, err := OpenInput(d, in)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("keep input %s: %w", in.Path, err)
	}
	return WriteFile(d.Path(InputsDir, in.SHA256), b)
}
