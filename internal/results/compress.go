package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Compressed is what the name of a compressed .jsonl file has appended: history.jsonl.zst.
const Compressed = ".zst"

// Sizes of compression, in bytes: how far back a reader has to look, and the most that one is ready to.
const (
	window    = 1 << 20
	maxWindow = 8 << 20
)

// compressor is a file that is compressed while it is written. It uses no goroutines, so that a simulated run can write to it.
type compressor struct {
	file *os.File
	enc  *zstd.Encoder
	n    int64 // bytes in the file
}

func newCompressor(f *os.File) (*compressor, error) {
	c := &compressor{file: f}
	enc, err := zstd.NewWriter(c.count(), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", f.Name(), err)
	}
	c.enc = enc
	return c, nil
}

func (c *compressor) count() io.Writer {
	return writer(func(p []byte) (int, error) {
		n, err := c.file.Write(p)
		c.n += int64(n)
		return n, err
	})
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Write compresses p.
func (c *compressor) Write(p []byte) (int, error) { return c.enc.Write(p) }

// Flush ends a block: all that was written can be read, should nothing more come.
func (c *compressor) Flush() error { return c.enc.Flush() }

// end completes the frame.
func (c *compressor) end() error { return c.enc.Close() }

// stored is the number of bytes in the file.
func (c *compressor) stored() int64 { return c.n }

// Find is where a file lies that may have been stored compressed: path, or path with Compressed appended. Where neither is
// there it is path; both are damage.
func Find(path string) (string, error) {
	_, plain := os.Lstat(path)
	_, packed := os.Lstat(path + Compressed)
	switch {
	case plain == nil && packed == nil:
		return "", damaged(path, 0, errors.New("there both plain and compressed"))
	case packed == nil && errors.Is(plain, fs.ErrNotExist):
		return path + Compressed, nil
	}
	return path, nil
}

// openLines opens a .jsonl file, compressed or not. name is the file that was found.
func openLines(path string) (in io.ReadCloser, name string, err error) {
	if name, err = Find(path); err != nil {
		return nil, path, err
	}
	f, err := open(name)
	if err != nil || name == path {
		return f, name, err
	}
	dec, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, name, errors.Join(damaged(name, 0, err), f.Close())
	}
	return &expander{dec, f}, name, nil
}

// expander reads a compressed file.
type expander struct {
	dec  *zstd.Decoder
	file *os.File
}

// Read returns what was compressed; of a file that was cut, what had been flushed, and then an error.
func (e *expander) Read(p []byte) (int, error) { return e.dec.Read(p) }

// Close closes the file.
func (e *expander) Close() error {
	e.dec.Close()
	return e.file.Close()
}
