package registry

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Duration is a time.Duration written with its unit: 250ms, 1s, 10m.
type Duration time.Duration

// Bytes is a size written with its unit: 4KiB, 10MiB, 500B.
type Bytes int64

// Rate is records a second, written 40_000/s.
type Rate float64

// Share is a part of a whole from 0 to 1, written 5% or 0.05.
type Share float64

// ParseDuration reads a duration; a number without a unit is an error that says what to write.
func ParseDuration(s string) (Duration, error) {
	if n, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err == nil {
		if n == 0 {
			return 0, nil
		}
		if m := n / 60; m >= 1 && m == math.Trunc(m) {
			return 0, fmt.Errorf("duration %q has no unit; write %ss or %gm", s, s, m)
		}
		return 0, fmt.Errorf("duration %q has no unit; write %ss or %sms", s, s, s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q is not like 250ms, 1s or 10m", s)
	}
	if d < 0 {
		return 0, fmt.Errorf("duration %q is negative", s)
	}
	return Duration(d), nil
}

// ParseBytes reads a size. The suffixes k, M and G alone are refused, since they mean 1000 to some and 1024 to others.
func ParseBytes(s string) (Bytes, error) {
	t := strings.ReplaceAll(strings.TrimSpace(s), "_", "")
	unit := strings.TrimLeftFunc(t, func(r rune) bool { return unicode.IsDigit(r) || r == '.' || r == ' ' })
	switch unit {
	case "":
		return 0, fmt.Errorf("size %q has no unit; write %sB or %sKiB", s, t, t)
	case "k", "K", "m", "M", "g", "G", "t", "T":
		return 0, fmt.Errorf("size %q is ambiguous; write %siB or %sB", s, t, t)
	}
	n, err := humanize.ParseBytes(t)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("size %q is not like 500B, 4KiB or 10MiB", s)
	}
	return Bytes(n), nil
}

// ParseRate reads records a second.
func ParseRate(s string) (Rate, error) {
	n, per, ok := strings.Cut(strings.ReplaceAll(s, "_", ""), "/")
	f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
	if !ok || per != "s" || err != nil || f <= 0 || math.IsInf(f, 0) {
		return 0, fmt.Errorf("rate %q is not like 40_000/s", s)
	}
	return Rate(f), nil
}

// ParseShare reads a part of a whole.
func ParseShare(s string) (Share, error) {
	t, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	f, err := strconv.ParseFloat(t, 64)
	if percent {
		f /= 100
	}
	if err != nil || math.IsNaN(f) || f < 0 || f > 1 {
		return 0, fmt.Errorf("share %q is not between 0%% and 100%%", s)
	}
	return Share(f), nil
}

// String writes d as it is read.
func (d Duration) String() string { return time.Duration(d).String() }

// String writes b exactly, in the largest binary unit that divides it.
func (b Bytes) String() string {
	n, units := int64(b), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// String writes r as it is read.
func (r Rate) String() string { return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s" }

// String writes s in percent.
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 12, 64) + "%" }

// MarshalText writes the value as String does; with UnmarshalText it serves JSON and YAML alike.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalText writes the value as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// MarshalText writes the value as String does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// MarshalText writes the value as String does.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}

// UnmarshalText reads what ParseBytes reads.
func (b *Bytes) UnmarshalText(t []byte) (err error) { *b, err = ParseBytes(string(t)); return err }

// UnmarshalText reads what ParseRate reads.
func (r *Rate) UnmarshalText(b []byte) (err error) { *r, err = ParseRate(string(b)); return err }

// UnmarshalText reads what ParseShare reads.
func (s *Share) UnmarshalText(b []byte) (err error) { *s, err = ParseShare(string(b)); return err }

// UnmarshalYAML reads the value and keeps its place in errors.
func (d *Duration) UnmarshalYAML(n ast.Node) error { return fromNode(n, d) }

// UnmarshalYAML reads the value and keeps its place in errors.
func (b *Bytes) UnmarshalYAML(n ast.Node) error { return fromNode(n, b) }

// UnmarshalYAML reads the value and keeps its place in errors.
func (r *Rate) UnmarshalYAML(n ast.Node) error { return fromNode(n, r) }

// UnmarshalYAML reads the value and keeps its place in errors.
func (s *Share) UnmarshalYAML(n ast.Node) error { return fromNode(n, s) }

func fromNode(n ast.Node, into interface{ UnmarshalText([]byte) error }) error {
	if err := into.UnmarshalText([]byte(n.GetToken().Value)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}
