package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unit says how a figure is written.
type unit int

const (
	unitMillis  unit = iota // a duration in milliseconds
	unitSeconds             // a duration in seconds
	unitMicros              // microseconds a record
	unitBytes
	unitRate // records a second
	unitCount
	unitDollars
)

// timed tells whether figures of the unit come from the cost model in a simulated run.
func (u unit) timed() bool { return u != unitBytes && u != unitCount && u != unitDollars }

// format writes v, finite, with three significant digits and its unit; sim marks times of a simulated run.
func (u unit) format(v float64, sim bool) string {
	var s string
	switch u {
	case unitMillis:
		s = formatMillis(v)
	case unitSeconds:
		s = formatMillis(v * 1000)
	case unitMicros:
		s = digits(v) + " µs/rec"
	case unitBytes:
		s = formatBytes(v)
	case unitRate:
		s = formatRate(v)
	case unitDollars:
		s = "$" + digits(v)
	default:
		s = digits(v)
	}
	if sim && u.timed() {
		s += " sim"
	}
	return s
}

// formatMillis writes a duration given in milliseconds.
func formatMillis(ms float64) string {
	switch a := math.Abs(ms); {
	case a == 0:
		return "0 ms"
	case a < 0.0995:
		return digits(ms*1000) + " µs"
	case a < 999.5:
		return digits(ms) + " ms"
	case a < 600_000:
		return digits(ms/1000) + " s"
	case a < 7_200_000:
		return digits(ms/60_000) + " min"
	default:
		return digits(ms/3_600_000) + " h"
	}
}

// formatBytes writes a size in powers of two.
func formatBytes(b float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for math.Abs(b) >= 999.5 && i < len(units)-1 {
		b, i = b/1024, i+1
	}
	if i == 0 {
		return strconv.FormatFloat(math.Round(b), 'f', -1, 64) + " B"
	}
	return digits(b) + " " + units[i]
}

// formatRate writes records a second.
func formatRate(r float64) string {
	switch a := math.Abs(r); {
	case a < 9999.5:
		return digits(r) + " /s"
	case a < 9_999_500:
		return digits(r/1000) + " k/s"
	default:
		return digits(r/1e6) + " M/s"
	}
}

// digits writes v with three significant digits, and with all digits before the point up to a million.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 1e6 || a < 0.001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.0995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
}

// formatRatio writes a ratio with two decimals, or more where it is small.
func formatRatio(r float64) string {
	switch {
	case r >= 999.5:
		return digits(r)
	case r >= 0.01:
		return strconv.FormatFloat(r, 'f', 2, 64)
	case r > 0 && r < 0.001:
		return "<0.001"
	default:
		return digits(r)
	}
}

// formatCount writes a whole number with commas at the thousands.
func formatCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural is "1 run", "2 runs".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatCount(int64(n)) + " " + one + "s"
}

// oneLine makes text of unknown origin fit on a line: control characters, which could move a terminal's cursor, become spaces.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// clip cuts s to n runes.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// width is the number of columns that s takes.
func width(s string) int { return utf8.RuneCountInString(s) }

// pad fills s to n columns.
func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

// list joins words as a sentence does.
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return ""
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// shellWord quotes s for a shell where that is needed.
func shellWord(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+@%", r))
	}) < 0
	if plain && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// slug makes a name for an anchor.
func slug(parts ...any) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, fmt.Sprint(parts...))
}
