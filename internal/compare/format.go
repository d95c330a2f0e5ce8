package compare

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"statebench.dev/bench/internal/metrics"
)

// percent writes a share: 7.3 %.
func percent(share float64) string {
	v := 100 * share
	if a := math.Abs(v); a >= 99.95 || v == math.Trunc(v) && a < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " %"
}

// signed is a change: its sign, and a digit behind the point below 100 %.
func signed(share float64) string {
	v, sign := 100*math.Abs(share), "+"
	switch {
	case v < 0.05:
		return "0.0 %"
	case share < 0:
		sign = "−"
	}
	if v >= 99.95 {
		return sign + short(v) + " %"
	}
	return sign + strconv.FormatFloat(v, 'f', 1, 64) + " %"
}

// short keeps three digits, and all before the point.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 99.95 && a < 1e6:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995 && a < 1e6:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.0995 && a < 1e6:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// duration writes milliseconds.
func duration(ms float64) string {
	switch a := math.Abs(ms); {
	case a != 0 && a < 0.0995:
		return short(ms*1000) + " µs"
	case a < 999.5:
		return short(ms) + " ms"
	case a < 600_000:
		return short(ms/1000) + " s"
	default:
		return short(ms/60_000) + " min"
	}
}

// size writes bytes in powers of two.
func size(b float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for math.Abs(b) >= 999.5 && i < len(units)-1 {
		b, i = b/1024, i+1
	}
	return short(b) + " " + units[i]
}

// value writes a value of a metric with its unit; sim marks what comes from the cost model.
func value(m metrics.Metric, v float64, sim bool) string {
	s := ""
	switch m.Unit {
	case metrics.Millis:
		s = duration(v)
	case metrics.Bytes:
		s = size(v)
	case metrics.Rate:
		s = short(v) + " /s"
		if math.Abs(v) >= 9999.5 {
			s = short(v/1000) + " k/s"
		}
	case metrics.Dollars:
		s = "$" + short(v)
	case metrics.Share:
		s = percent(v)
	case metrics.Count, metrics.PerCkpt:
		s = short(v)
	default:
		s = short(v) + " " + string(m.Unit)
	}
	if sim && m.Timed() {
		s += " sim"
	}
	return s
}

// plural is "1 pair", "2 pairs".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}

// oneLine makes text of unknown origin fit on a line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)), " ")
}
