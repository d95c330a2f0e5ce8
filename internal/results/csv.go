package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strconv"
)

// Opt is a figure that may be absent: an empty cell.
type Opt struct {
	Value float64
	Set   bool
}

// MarshalJSON writes an absent figure as null.
func (o Opt) MarshalJSON() ([]byte, error) {
	if !o.Set {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Opt) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*o = Opt{}
		return nil
	}
	o.Set = true
	return json.Unmarshal(b, &o.Value)
}

// Some is a present figure.
func Some[N int | int64 | uint64 | float64](v N) Opt { return Opt{Value: float64(v), Set: true} }

// CSV writes rows of type T, a struct whose fields carry csv tags. Line 1 is the header. It is not safe for concurrent use.
type CSV[T any] struct {
	file *os.File
	out  *csv.Writer
	err  error
}

// CreateCSV creates path, which must not exist, and writes the header.
func CreateCSV[T any](path string) (*CSV[T], error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	c := &CSV[T]{file: f, out: csv.NewWriter(f)}
	c.err = c.out.Write(header[T]())
	c.out.Flush()
	if c.err == nil {
		c.err = c.out.Error()
	}
	return c, nil
}

// Append adds a row; the first error is kept and returned again by Close.
func (c *CSV[T]) Append(row T) error {
	if c.err == nil {
		v, cells := reflect.ValueOf(row), []string(nil)
		for i := range v.NumField() {
			cells = append(cells, cell(v.Field(i)))
		}
		_ = c.out.Write(cells) // its error is that of the flush
		c.out.Flush()
		c.err = c.out.Error()
	}
	return c.err
}

// Err is the first error so far.
func (c *CSV[T]) Err() error { return c.err }

// Close ends the file.
func (c *CSV[T]) Close() error {
	c.out.Flush()
	if c.err == nil {
		c.err = c.out.Error()
	}
	if err := c.file.Close(); c.err == nil {
		c.err = err
	}
	return c.err
}

// maxRow bounds one line of a .csv file that is read back.
const maxRow = 1 << 20

// lines remembers the last byte read, since a file that was cut may well end inside a cell and still have all columns, and
// ends with an error where a line is too long.
type lines struct {
	in   io.Reader
	last byte
	long int // of the line so far
}

func (l *lines) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if n == 0 {
		return 0, err
	}
	l.last = p[n-1]
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		l.long = n - i - 1
	} else if l.long += n; l.long > maxRow {
		return 0, fmt.Errorf("line is longer than %d bytes", maxRow)
	}
	return n, err
}

// ReadCSV reads all rows of path; a header or cell that does not fit, and a last line without an end, wrap ErrDamaged and
// name the line.
func ReadCSV[T any](path string) ([]T, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end := &lines{in: f}
	r := csv.NewReader(end)
	got, err := r.Read()
	if err != nil {
		return nil, damaged(path, 1, err)
	}
	fields, err := match[T](got)
	if err != nil {
		return nil, damaged(path, 1, err)
	}
	var rows []T
	for line := int64(2); ; line++ {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			if end.last != '\n' {
				return nil, damaged(path, line-1, errors.New("last line is cut"))
			}
			return rows, nil
		}
		if err != nil {
			return nil, damaged(path, line, err)
		}
		var row T
		v := reflect.ValueOf(&row).Elem()
		for i := range cells {
			if err := parse(v.Field(fields[i]), cells[i]); err != nil {
				return nil, damaged(path, line, fmt.Errorf("column %s: %w", got[i], err))
			}
		}
		rows = append(rows, row)
	}
}

// match finds the field of each column of a header. All columns must be there, in order, but for those that the schema was
// extended by later, which are of type Opt and marked so.
func match[T any](got []string) (fields []int, err error) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("csv")
		switch n := len(fields); {
		case n < len(got) && got[n] == name:
			fields = append(fields, i)
		case t.Field(i).Tag.Get("added") != "":
		case n < len(got):
			return nil, fmt.Errorf("column %d is %q, want %q", n+1, got[n], name)
		default:
			return nil, fmt.Errorf("header has %d columns and not %q", n, name)
		}
	}
	if n := len(fields); n < len(got) {
		return nil, fmt.Errorf("column %d is %q, of which nothing is known", n+1, got[n])
	}
	return fields, nil
}

func header[T any]() []string {
	t := reflect.TypeFor[T]()
	var names []string
	for i := range t.NumField() {
		names = append(names, t.Field(i).Tag.Get("csv"))
	}
	return names
}

func cell(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Opt:
		if !x.Set {
			return ""
		}
		return number(x.Value)
	case float64:
		return number(x)
	case string:
		return x
	default:
		return fmt.Sprint(x)
	}
}

// number writes at most six decimals: microseconds of a figure in seconds, nanoseconds of one in milliseconds.
func number(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(f*1e6)/1e6, 'f', -1, 64)
}

func parse(v reflect.Value, s string) (err error) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(s)
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(s, 10, 64)
		v.SetInt(n)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(s, 10, 64)
		v.SetUint(n)
	case reflect.Float64:
		var f float64
		f, err = finite(s)
		v.SetFloat(f)
	default:
		if s == "" {
			return nil
		}
		var f float64
		f, err = finite(s)
		v.Set(reflect.ValueOf(Opt{Value: f, Set: true}))
	}
	return err
}

func finite(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
		err = fmt.Errorf("%q is not a finite number", s)
	}
	return f, err
}
