package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/heap"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

// testState opens an empty keyed state of 8 key groups.
func testState(ctx context.Context, t *testing.T, w world.World) *backend.Context {
	t.Helper()
	b, err := heap.New(heap.Options{}).ForWorker(ctx, backend.WorkerEnv{World: w, Bucket: store.NewMem(), Worker: "worker-0", Attempt: 1,
		Emit: func(context.Context, history.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := b.Open(ctx, backend.OpenOptions{Operator: "o", Subtask: "o-0", Range: keygroup.Range{To: 8}})
	if err != nil {
		t.Fatal(err)
	}
	return backend.NewContext(keyed)
}

func TestTimersFireInOrderOfTimeAndKey(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		c := testState(ctx, t, w)
		tm, err := newTimers(c, timerState)
		if err != nil {
			t.Fatal(err)
		}
		set := func(key string, at int64) {
			c.SetKey(keygroup.ID(key[0]%8), []byte(key))
			if err := tm.register(at); err != nil {
				t.Fatal(err)
			}
		}
		set("b", 20)
		set("c", 10)
		set("a", 20)
		set("a", 20) // once is enough
		set("d", 15)
		set("e", 30)
		c.SetKey('d'%8, []byte("d"))
		if err := tm.delete(15); err != nil {
			t.Fatal(err)
		}
		var fired []string
		err = tm.fire(20, func(at int64, key []byte, _ keygroup.ID) error {
			fired = append(fired, fmt.Sprintf("%s@%d", key, at))
			if string(key) == "c" && at == 10 {
				set("c", 5)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(fired), "[c@10 c@5 a@20 b@20]"; got != want {
			t.Errorf("fired %s, want %s", got, want)
		}
		if again, err := newTimers(c, timerState); err != nil || len(again.heap) != 1 || again.heap[0].at != 30 {
			t.Errorf("the state holds %v, %v; want e@30 alone", again.heap, err)
		}
	})
}

func TestTimersAgreeWithAMap(t *testing.T) {
	simulate(t, 1, func(ctx context.Context, w world.World) {
		c := testState(ctx, t, w)
		tm, err := newTimers(c, timerState)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		model := map[[2]int64]bool{} // time, key
		watermark := int64(0)
		for range 20_000 {
			key, at := rng.Int64N(50), watermark+rng.Int64N(1000)
			c.SetKey(keygroup.ID(key%8), binary.BigEndian.AppendUint64(nil, uint64(key)))
			switch rng.IntN(10) {
			case 0:
				watermark += rng.Int64N(200)
				var want, got [][2]int64
				for m := range model { // order-free: sorted below
					if m[0] <= watermark {
						want = append(want, m)
						delete(model, m)
					}
				}
				slices.SortFunc(want, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
				err := tm.fire(watermark, func(at int64, key []byte, _ keygroup.ID) error {
					got = append(got, [2]int64{at, int64(binary.BigEndian.Uint64(key))})
					return nil
				})
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("at %d fired %v, %v; want %v", watermark, got, err, want)
				}
			case 1, 2:
				err = tm.delete(at)
				delete(model, [2]int64{at, key})
			default:
				err = tm.register(at)
				model[[2]int64{at, key}] = true
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
