package world

import (
	"context"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	for _, w := range []World{NewReal(1), NewSim(SimOptions{Seed: 1})} {
		q := NewQueue[int](w, 2)
		sum := 0
		err := w.Run(func(ctx context.Context) error {
			g := NewGroup(w)
			g.Go(ctx, "put", func(ctx context.Context) error {
				for i := range 100 {
					if err := q.Put(ctx, i); err != nil {
						return err
					}
				}
				q.Close()
				return nil
			})
			g.Go(ctx, "take", func(ctx context.Context) error {
				ws := NewWaitSet(w, q.Readable())
				for {
					if _, err := ws.Wait(ctx, Never); err != nil {
						return err
					}
					v, ok := q.TryTake()
					if !ok {
						if q.Closed() {
							return nil
						}
						continue
					}
					sum += v
				}
			})
			if err := w.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			return g.Wait(ctx)
		})
		if err != nil || sum != 4950 {
			t.Errorf("%v: sum %d, %v", w.Simulated(), sum, err)
		}
	}
}
