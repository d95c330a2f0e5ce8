package backend

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// encodes wants that v is written as want, read back as itself, and that any other length is refused unless free.
func encodes[T comparable](t *testing.T, c Codec[T], v T, want string, free bool) {
	t.Helper()
	b := c.Append([]byte("before"), v)
	if string(b) != "before"+want {
		t.Errorf("%v is written %q, want %q", v, b[6:], want)
	}
	if got, err := c.Decode([]byte(want)); err != nil || got != v {
		t.Errorf("%q is read %v, %v, want %v", want, got, err, v)
	}
	if free {
		return
	}
	for _, bad := range []string{"", want[1:], want + "x"} {
		if _, err := c.Decode([]byte(bad)); !errors.Is(err, ErrEncoding) {
			t.Errorf("%q is read with error %v", bad, err)
		}
	}
}

type reading struct {
	Name  string
	Count uint64
	Level float64
	Delta int64
}

func TestCodecsAreCanonical(t *testing.T) {
	encodes(t, Codec[int64](Int64{}), -2, "\xff\xff\xff\xff\xff\xff\xff\xfe", false)
	encodes(t, Codec[uint64](Uint64{}), 258, "\x00\x00\x00\x00\x00\x00\x01\x02", false)
	encodes(t, Codec[float64](Float64{}), 1, "\x3f\xf0\x00\x00\x00\x00\x00\x00", false)
	encodes(t, Codec[float64](Float64{}), math.Inf(-1), "\xff\xf0\x00\x00\x00\x00\x00\x00", false)
	encodes(t, Codec[string](String{}), "", "", true)
	encodes(t, Codec[string](String{}), "a\x00b", "a\x00b", true)
	encodes(t, PairOf[string, int64](String{}, Int64{}), Pair[string, int64]{"ab", 1}, "\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01", false)
	encodes(t, StructOf(
		func(dst []byte, v reading) []byte {
			return AppendInt64(AppendFloat64(AppendUint64(AppendString(dst, v.Name), v.Count), v.Level), v.Delta)
		},
		func(r *Reader) reading { return reading{r.String(), r.Uint64(), r.Float64(), r.Int64()} },
	), reading{"n", 3, 2, -1}, "\x00\x00\x00\x01n\x00\x00\x00\x00\x00\x00\x00\x03\x40\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", false)
	src := []byte("borrowed")
	if got, err := (Bytes{}).Decode(src); err != nil || &got[0] != &src[0] {
		t.Errorf("bytes are copied, or %v", err)
	}
}

func TestReaderStopsAtTheFirstError(t *testing.T) {
	r := NewReader([]byte("\x01\x02\x03\x00\x00\x00\x02abX"))
	if r.Uint8() != 1 || r.Uint16() != 0x203 || string(r.Bytes()) != "ab" || string(r.Next(1)) != "X" || r.Close() != nil {
		t.Errorf("reader gives %v", r.Close())
	}
	r = NewReader([]byte("\x00\x00\x00\x09short"))
	if b := r.Bytes(); b != nil || r.Uint8() != 0 || r.Uint32() != 0 || r.Uint64() != 0 || len(r.Rest()) != 0 || !errors.Is(r.Close(), ErrEncoding) {
		t.Errorf("reader gives %q, %v", b, r.Close())
	}
}

// Keys, namespaces and rests of any bytes give distinct element keys that come apart again, and those of one (key,
// namespace) are the ones with its prefix.
func TestElementKeysAreUnambiguous(t *testing.T) {
	parts := []string{"", "a", "\x00", "\x01a", "\x02", "aa", string(bytes.Repeat([]byte("k"), 200))}
	seen := map[string][3]string{}
	prefixes := map[string][2]string{}
	c := NewContext(nil)
	if _, err := c.addr(0); !errors.Is(err, ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	for _, key := range parts {
		for _, ns := range parts {
			c.SetNamespace([]byte("left over"))
			c.SetKey(3, []byte(key))
			c.SetNamespace([]byte("left over"))
			c.SetNamespace([]byte(ns))
			a, err := c.addr(7)
			if err != nil || a.Group != 3 || a.State != 7 || string(c.Key()) != key || c.Group() != 3 {
				t.Fatalf("address %+v of key %q, %v", a, c.Key(), err)
			}
			prefixes[string(a.Key)] = [2]string{key, ns}
			if b, err := c.inNamespace(7, []byte(ns)); err != nil || !bytes.Equal(b.Key, a.Key) {
				t.Errorf("namespace %q of key %q: %x and %x, %v", ns, key, a.Key, b.Key, err)
			}
			for _, rest := range parts {
				stored := string(a.Key) + rest
				if was, twice := seen[stored]; twice {
					t.Errorf("%q and %q have one element key", was, [3]string{key, ns, rest})
				}
				seen[stored] = [3]string{key, ns, rest}
				k, n, r, err := splitKey([]byte(stored))
				if err != nil || string(k) != key || string(n) != ns || string(r) != rest {
					t.Errorf("%q, %q, %q comes apart as %q, %q, %q, %v", key, ns, rest, k, n, r, err)
				}
			}
		}
	}
	for stored, is := range seen { // order-free: each is looked at alone
		for prefix, of := range prefixes { // order-free: each is looked at alone
			if begins := bytes.HasPrefix([]byte(stored), []byte(prefix)); begins != (of == [2]string{is[0], is[1]}) {
				t.Errorf("element %q begins with the prefix of %q: %t", is, of, begins)
			}
		}
	}
	for _, bad := range []string{"", "\x05abc", "\x01a", "\x01a\x05", "\xff"} {
		if _, _, _, err := splitKey([]byte(bad)); !errors.Is(err, ErrEncoding) {
			t.Errorf("%q comes apart: %v", bad, err)
		}
	}
}

func TestTypesHaveNamesAndAccess(t *testing.T) {
	for typ, want := range map[Type]StateSpec{Value: {Name: "value", Type: Value, Access: Point}, List: {Name: "list", Type: List, Access: Ordered}, Map: {Name: "map", Type: Map, Access: Ordered}, Reducing: {Name: "reducing", Type: Reducing, Access: Point}, Aggregating: {Name: "aggregating", Type: Aggregating, Access: Point}, Timers: {Name: "timers", Type: Timers, Access: Ordered}} {
		if got := Spec(typ.String(), typ); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if s := Type(99).String(); s != "type-99" {
		t.Errorf("unknown type is called %q", s)
	}
}
