package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/zeebo/xxh3"
)

// maxLine bounds one line of a .jsonl file that is read back.
const maxLine = 64 << 20

// Lines writes values as lines of JSON. It is safe for concurrent use; the first error is kept.
type Lines struct {
	mu   sync.Mutex
	line bytes.Buffer  // the one being written
	enc  *json.Encoder // into line
	file *os.File
	out  spool
	sum  *xxh3.Hasher
	n    int64
	err  error
}

// spool is what lines are written to: buffered or compressed.
type spool interface {
	io.Writer
	Flush() error  // hands all to the file, so that it can be read
	end() error    // what follows the last line
	stored() int64 // bytes that the file has, or will have with the next Flush
}

// plain is a spool that does not compress.
type plain struct {
	*bufio.Writer
	n int64
}

// Write buffers p.
func (p *plain) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.n += int64(n)
	return n, err
}

func (p *plain) end() error    { return p.Flush() }
func (p *plain) stored() int64 { return p.n }

// CreateLines creates path, which must not exist.
func CreateLines(path string) (*Lines, error) {
	return createLines(path, func(f *os.File) (spool, error) { return &plain{Writer: bufio.NewWriterSize(f, 1<<16)}, nil })
}

// CreateCompressed creates path with Compressed appended, which must not exist. Whoever reads path finds it.
func CreateCompressed(path string) (*Lines, error) {
	return createLines(path+Compressed, func(f *os.File) (spool, error) { return newCompressor(f) })
}

func createLines(path string, on func(f *os.File) (spool, error)) (*Lines, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	out, err := on(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l := &Lines{file: f, out: out, sum: xxh3.New()}
	l.enc = json.NewEncoder(&l.line)
	return l, nil
}

// Append adds one line and returns the first error of all calls so far.
func (l *Lines) Append(v any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.line.Reset()
	if err := l.enc.Encode(v); err != nil {
		l.err = fmt.Errorf("encode a line of %s: %w", l.file.Name(), err)
		return l.err
	}
	_, _ = l.sum.Write(l.line.Bytes())
	l.n++
	_, l.err = l.out.Write(l.line.Bytes())
	return l.err
}

// Len is the number of lines that Append has added.
func (l *Lines) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Flush hands all lines to the operating system: should the program be killed, they can be read.
func (l *Lines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.out.Flush()
	}
	return l.err
}

// Stored is the size of the file in bytes, but for what is still to be compressed.
func (l *Lines) Stored() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.stored()
}

// Err returns the first error so far.
func (l *Lines) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Digest is a hash of all lines so far.
func (l *Lines) Digest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.sum.Sum128().Bytes()
	return fmt.Sprintf("%x", b[:])
}

// Close writes what is buffered and ends the file.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.out.end() // an error of an earlier write comes again here
	if l.err == nil {
		l.err = err
	}
	if err := l.file.Close(); l.err == nil {
		l.err = err
	}
	return l.err
}

// Write lets Lines serve as the spool of a history.Recorder, whose lines are complete; it is not counted in Digest.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.out.Write(p)
	if l.err == nil {
		l.err = err
	}
	return n, err
}

// ReadLines yields the values of a .jsonl file, which may have been stored compressed. A cut, overlong or broken line ends the sequence with an error that
// wraps ErrDamaged and names the line.
func ReadLines[T any](path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero, v T // v is on the heap: one for all lines
		f, path, err := openLines(path)
		if err != nil {
			yield(zero, err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, 1<<16)
		for line := int64(1); ; line++ {
			b, err := readLine(in)
			if errors.Is(err, io.EOF) {
				return
			}
			v = zero
			if err == nil {
				err = json.Unmarshal(b, &v)
			}
			if err != nil {
				yield(zero, damaged(path, line, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// readLine returns one line without its end; io.EOF at the end of the file, another error for a last line without an end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := in.ReadSlice('\n')
		if err == nil && whole == nil {
			return bytes.TrimSuffix(part, []byte("\n")), nil
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(whole, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(whole) > maxLine {
				return nil, fmt.Errorf("line is longer than %d bytes", maxLine)
			}
		case errors.Is(err, io.EOF) && len(whole) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, errors.New("last line is cut")
		default:
			return nil, err
		}
	}
}
