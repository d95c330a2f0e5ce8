package canon

import "testing"

func TestDigestIgnoresOrderAndTakesBack(t *testing.T) {
	a := Element(nil, "s", []byte("k"), nil, []byte("v"))
	b := Element(nil, "s", []byte("kv"), nil, nil)
	var x, y Digest
	x.Add(a)
	x.Add(b)
	y.Add(b)
	y.Add(a)
	if x != y {
		t.Fatalf("order matters: %v and %v", x, y)
	}
	x.Remove(a)
	y = Digest{}
	y.Add(b)
	if x != y {
		t.Fatalf("after removal %v, want %v", x, y)
	}
	var z Digest
	z.Add(a)
	z.Merge(y)
	x.Add(a)
	if z != x {
		t.Fatalf("merge gives %v, want %v", z, x)
	}
}

func TestElementsWithMovedBoundariesDiffer(t *testing.T) {
	var x, y Digest
	x.Add(Element(nil, "s", []byte("ab"), []byte("c"), nil))
	y.Add(Element(nil, "s", []byte("a"), []byte("bc"), nil))
	if x == y {
		t.Fatal("two different elements have one encoding")
	}
}
