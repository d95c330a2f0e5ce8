package workloads

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strings"
	"time"

	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/seed"
)

// traceRows are the rows of a file in columns: a few numbers a row, each text once.
type traceRows struct {
	at     []int64 // event time, ns; not decreasing
	key    []int32
	second []int32
	values []int64 // millionths, all columns of a row together
	labels []int32 // likewise
	keys   dictionary
	others dictionary // second keys
	texts  dictionary // labels
	bad    badRows
}

// dictionary numbers texts in the order in which they come.
type dictionary struct {
	number map[string]int32
	text   [][]byte
	hash   []int32
}

func (d *dictionary) add(text []byte) int32 {
	if n, known := d.number[string(text)]; known {
		return n
	}
	if d.number == nil {
		d.number = map[string]int32{}
	}
	n := int32(len(d.text))
	d.number[string(text)] = n
	d.text = append(d.text, append([]byte(nil), text...))
	d.hash = append(d.hash, keygroup.HashBytes(text))
	return n
}

// badRows are rows that were skipped: their number and the first few, by line.
type badRows struct {
	count int64
	first []string
}

func (b *badRows) add(line int, err error) {
	if b.count++; len(b.first) < 10 {
		b.first = append(b.first, fmt.Sprintf("line %d: %v", line, err))
	}
}

// Error lists the first bad rows.
func (b *badRows) Error() string {
	text := fmt.Sprintf("%d bad rows: %s", b.count, strings.Join(b.first, "; "))
	if int64(len(b.first)) < b.count {
		text += "; ..."
	}
	return text
}

// traceReader reads one file.
type traceReader struct {
	o       *traceOptions
	rows    *traceRows
	header  []string
	time    int // columns
	key     []int
	second  []int
	values  []int
	labels  []int
	scratch []byte
}

// loadTrace reads a whole file. Rows that cannot be read are skipped, up to o.BadRows of them.
func loadTrace(o *traceOptions, open func(string) (io.ReadCloser, error)) (_ *traceRows, err error) {
	f, err := open(o.File)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.File, err)
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	in := io.Reader(bufio.NewReaderSize(f, 1<<16))
	if strings.HasSuffix(o.File, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("read %s: %w", o.File, err)
		}
	}
	r := &traceReader{o: o, rows: &traceRows{}}
	if err := r.read(in); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.File, err)
	}
	return r.rows, nil
}

func (r *traceReader) read(in io.Reader) error {
	c := csv.NewReader(in)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := r.columns(header); err != nil {
		return err
	}
	for {
		fields, err := c.Read()
		var syntax *csv.ParseError
		switch {
		case err == io.EOF:
			return r.judge()
		case errors.As(err, &syntax):
			r.rows.bad.add(syntax.StartLine, syntax.Err)
		case err != nil:
			return err
		default:
			if err := r.row(fields); err != nil {
				line, _ := c.FieldPos(0)
				r.rows.bad.add(line, err)
			}
		}
	}
}

// judge says whether what was read will do.
func (r *traceReader) judge() error {
	if r.rows.bad.count > r.o.BadRows {
		return fmt.Errorf("badRows allows %d: %w", r.o.BadRows, &r.rows.bad)
	}
	if len(r.rows.at) == 0 {
		return errors.New("no rows")
	}
	return nil
}

// columns finds the columns of the options in the header.
func (r *traceReader) columns(header []string) error {
	r.header = append([]string(nil), header...)
	r.header[0] = strings.TrimPrefix(r.header[0], "\ufeff")
	var problems []error
	find := func(names []string) (at []int) {
		for _, name := range names {
			found := -1
			for i, h := range r.header {
				if h == name && found >= 0 {
					problems = append(problems, fmt.Errorf("column %q is there twice", name))
				} else if h == name {
					found = i
				}
			}
			if found < 0 {
				problems = append(problems, &registry.UnknownError{What: "column", Name: name, Nearest: registry.Nearest(name, r.header)})
			}
			at = append(at, found)
		}
		return at
	}
	r.time = find([]string{r.o.Time.Column})[0]
	r.key, r.second, r.values, r.labels = find(r.o.Key), find(r.o.Second), find(r.o.Values), find(r.o.Labels)
	return errors.Join(problems...)
}

// row takes one row, or nothing of it when it is wrong.
func (r *traceReader) row(fields []string) error {
	rows := r.rows
	if len(fields) != len(r.header) {
		return fmt.Errorf("%d columns, want %d", len(fields), len(r.header))
	}
	at, err := parseDecimal(fields[r.time], timePlaces(r.o.Time.Unit))
	if err != nil {
		return fmt.Errorf("column %s: %w", r.header[r.time], err)
	}
	if n := len(rows.at); n > 0 && at < rows.at[n-1] {
		return fmt.Errorf("time %s is before that of a row above", fields[r.time])
	}
	kept := len(rows.values)
	for _, i := range r.values {
		v, err := parseDecimal(fields[i], 6)
		if err != nil {
			rows.values = rows.values[:kept]
			return fmt.Errorf("column %s: %w", r.header[i], err)
		}
		rows.values = append(rows.values, v)
	}
	for _, i := range r.labels {
		rows.labels = append(rows.labels, rows.texts.add([]byte(fields[i])))
	}
	rows.at = append(rows.at, at)
	rows.key = append(rows.key, rows.keys.add(r.join(fields, r.key)))
	rows.second = append(rows.second, rows.others.add(r.join(fields, r.second)))
	return nil
}

// join makes a key: one column is taken as it is, several each with its length in front.
func (r *traceReader) join(fields []string, at []int) []byte {
	r.scratch = r.scratch[:0]
	for _, i := range at {
		if len(at) > 1 {
			r.scratch = binary.BigEndian.AppendUint32(r.scratch, uint32(len(fields[i])))
		}
		r.scratch = append(r.scratch, fields[i]...)
	}
	return r.scratch
}

// parseDecimal reads a decimal number with at most places places after the point, as a multiple of the last of them.
func parseDecimal(text string, places int) (int64, error) {
	digits, negative := text, false
	if text != "" && (text[0] == '-' || text[0] == '+') {
		digits, negative = text[1:], text[0] == '-'
	}
	whole, part, point := strings.Cut(digits, ".")
	if whole == "" || point && part == "" || len(part) > places {
		return 0, fmt.Errorf("%q is not a number with at most %d places", text, places)
	}
	var v int64 // negative, since that range is the larger one
	for i := range len(whole) + places {
		c := byte('0')
		if i < len(whole) {
			c = whole[i]
		} else if i-len(whole) < len(part) {
			c = part[i-len(whole)]
		}
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a number with at most %d places", text, places)
		}
		d := int64(c - '0')
		if v < (math.MinInt64+d)/10 {
			return 0, fmt.Errorf("%q is too large", text)
		}
		v = v*10 - d
	}
	if negative {
		return v, nil
	}
	if v == math.MinInt64 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return -v, nil
}

// traceSource is the source over loaded rows. A row goes to a partition by a hash of its key.
type traceSource struct {
	rows       *traceRows
	partitions [][]int32 // their rows, in order
	total      int64     // records of the run
	values     int
	labels     int
	second     bool
	speed      float64 // ns of event time in one; 0: not paced by it
	rate       float64 // rows a second; 0: not paced by it
}

func newTraceSource(rows *traceRows, o *traceOptions, rate float64, total int64) *traceSource {
	s := &traceSource{rows: rows, partitions: make([][]int32, o.Partitions), total: total, values: len(o.Values), labels: len(o.Labels),
		second: len(o.Second) > 0, speed: o.Speed, rate: rate}
	if d := o.Duration.Duration; d > 0 {
		s.speed = float64(rows.at[len(rows.at)-1]-rows.at[0]) / float64(d)
	}
	at := make([]int, len(rows.keys.text))
	for k, text := range rows.keys.text {
		at[k] = int(seed.Hash(0, string(text)) % uint64(o.Partitions))
	}
	for row, k := range rows.key {
		s.partitions[at[k]] = append(s.partitions[at[k]], int32(row))
	}
	return s
}

// Partitions implements graph.Source.
func (s *traceSource) Partitions() int { return len(s.partitions) }

// Limit implements graph.Source: the records of the partition among the first total rows of the file.
func (s *traceSource) Limit(partition int, total int64) int64 {
	rows := s.partitions[partition]
	return int64(sort.Search(len(rows), func(i int) bool { return int64(rows[i]) >= total }))
}

// Read implements graph.Source. The value is the numbers, the labels with their lengths, and the second key.
func (s *traceSource) Read(partition int, index int64, r *graph.Record) (bool, error) {
	part := s.partitions[partition]
	if index >= int64(len(part)) {
		return false, nil
	}
	row, rows := int(part[index]), s.rows
	k := rows.key[row]
	r.Key, r.Hash, r.Value = append(r.Key[:0], rows.keys.text[k]...), rows.keys.hash[k], r.Value[:0]
	for _, v := range rows.values[row*s.values : (row+1)*s.values] {
		r.Value = binary.BigEndian.AppendUint64(r.Value, uint64(v))
	}
	for _, l := range rows.labels[row*s.labels : (row+1)*s.labels] {
		text := rows.texts.text[l]
		r.Value = append(binary.BigEndian.AppendUint32(r.Value, uint32(len(text))), text...)
	}
	r.Value = append(r.Value, rows.others.text[rows.second[row]]...)
	r.EventTime, r.Partition, r.Index, r.Tag = rows.at[row], int32(partition), index, 0
	return true, nil
}

// Due implements graph.Source.
func (s *traceSource) Due(partition int, index int64) time.Duration {
	part := s.partitions[partition]
	if len(part) == 0 {
		return anyTime
	}
	row := part[min(index, int64(len(part)-1))]
	switch {
	case s.speed > 0:
		return time.Duration(float64(s.rows.at[row]-s.rows.at[0]) / s.speed)
	case s.rate > 0:
		return time.Duration(float64(row) * 1e9 / s.rate)
	}
	return anyTime
}

// Watermark implements graph.Source. A partition that has no record in this run holds nothing back; one at its end keeps
// the time of its last row.
func (s *traceSource) Watermark(partition int, index int64) int64 {
	part := s.partitions[partition]
	if len(part) == 0 || int64(part[0]) >= s.total {
		return math.MaxInt64
	}
	return s.rows.at[part[min(index, int64(len(part)-1))]]
}
