package workloads

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"statebench.dev/bench/internal/canon"
	"statebench.dev/bench/internal/seed"
)

// read reads the file for the model and deals its rows out. It shares no code with the source: both must agree on what a
// row means, and on which rows cannot be read.
func (in *traceInput) read() (_ []tracePart, err error) {
	file, err := in.open(in.file)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := file.Close(); err == nil {
			err = e
		}
	}()
	text := io.Reader(file)
	if strings.HasSuffix(in.file, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	parts := make([]tracePart, in.partitions)
	for p := range parts {
		parts[p] = tracePart{output: make([]canon.Digest, in.maxParallelism)}
	}
	table := csv.NewReader(text)
	table.FieldsPerRecord = -1
	header, err := table.Read()
	if err != nil {
		return nil, err
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	names, number, last := map[string]string{}, int64(0), int64(math.MinInt64)
	for {
		fields, err := table.Read()
		if err == io.EOF {
			return parts, nil
		}
		var malformed *csv.ParseError
		if errors.As(err, &malformed) {
			continue
		}
		if err != nil {
			return nil, err
		}
		row, ok := in.row(header, fields, names)
		if !ok || row.at < last {
			continue
		}
		part := &parts[seed.Hash(0, row.key)%uint64(in.partitions)]
		part.rows = append(part.rows, row)
		if number < in.total {
			part.limit++
		}
		number++
		last = row.at
	}
}

// row makes a row of its fields; ok is false when it cannot be read. Equal texts become one, by names.
func (in *traceInput) row(header, fields []string, names map[string]string) (row traceRow, ok bool) {
	if len(fields) != len(header) {
		return row, false
	}
	one := func(text string) string {
		if known, there := names[text]; there {
			return known
		}
		text = strings.Clone(text)
		names[text] = text
		return text
	}
	field := func(name string) string { return fields[slices.Index(header, name)] }
	if row.at, ok = scaled(field(in.timeColumn), in.timePlaces); !ok {
		return row, false
	}
	row.values = make([]int64, len(in.values))
	for i, name := range in.values {
		if row.values[i], ok = scaled(field(name), 6); !ok {
			return row, false
		}
	}
	for _, name := range in.labels {
		row.labels = append(row.labels, one(field(name)))
	}
	composed := func(columns []string) string {
		if len(columns) == 1 {
			return one(field(columns[0]))
		}
		var b []byte
		for _, name := range columns {
			b = binary.BigEndian.AppendUint32(b, uint32(len(field(name))))
			b = append(b, field(name)...)
		}
		return one(string(b))
	}
	row.key, row.second = composed(in.key), composed(in.second)
	return row, true
}

// scaled reads a decimal number as a multiple of 10^-places.
func scaled(text string, places int) (int64, bool) {
	whole, part, point := strings.Cut(text, ".")
	if strings.Trim(whole, "+-") == "" || point && part == "" || len(part) > places {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", places-len(part)), 10, 64)
	return n, err == nil
}
