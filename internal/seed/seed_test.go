package seed

import "testing"

func TestStreamIsFixedByMasterAndName(t *testing.T) {
	a, b := Stream(1, "source/0"), Stream(1, "source/0")
	other, otherMaster := Stream(1, "source/1"), Stream(2, "source/0")
	same := 0
	for range 100 {
		v := a.Uint64()
		if w := b.Uint64(); v != w {
			t.Fatalf("equal arguments gave %d and %d", v, w)
		}
		if v == other.Uint64() || v == otherMaster.Uint64() {
			same++
		}
	}
	if same != 0 {
		t.Errorf("streams of other names or masters agree in %d of 100 draws", same)
	}
}

// TestValuesNeverChange pins the values, since stored plans and seeds rely on them.
func TestValuesNeverChange(t *testing.T) {
	for _, tt := range []struct {
		master uint64
		name   string
		hash   uint64
		first  uint64
	}{
		{0, "", 0x2d06800538d394c2, 0x3ccc7d2d9cdc330c},
		{1, "faults/worker-crash", 0x2ae38bc9d9814a29, 0x1d845f3a19624adc},
		{1<<64 - 1, "sched", 0xa0215e801e46cb87, 0x89126b76f2d8c763},
	} {
		if got := Hash(tt.master, tt.name); got != tt.hash {
			t.Errorf("Hash(%d, %q) = %#x, want %#x", tt.master, tt.name, got, tt.hash)
		}
		if got := Stream(tt.master, tt.name).Uint64(); got != tt.first {
			t.Errorf("first draw of Stream(%d, %q) = %#x, want %#x", tt.master, tt.name, got, tt.first)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	for b.Loop() {
		Hash(1, "workers/17/disk")
	}
}
