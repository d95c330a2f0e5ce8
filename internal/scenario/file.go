package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// maxFile bounds a scenario and a profile, so that a device or a wrong file cannot fill the memory.
const maxFile = 16 << 20

// ReadFile reads a scenario file, of which a pipe may be one, up to a size that none has.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, path)
}

// openRegular opens a file that a scenario names. A pipe or a device there would never end, or never begin.
func openRegular(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, but a pipe, a device or a socket; copy its content to a file", path)
	}
	return os.Open(path)
}

// readAll reads and closes a file.
func readAll(f *os.File, path string) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(src) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d MiB, which no file of this kind is; is it the right one?", path, maxFile>>20)
	}
	return src, nil
}
