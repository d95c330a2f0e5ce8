package world

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// must fails the benchmark for an error of Run.
func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// quiet is a simulated world without forced turns.
func quiet() *Sim {
	return NewSim(SimOptions{Seed: 1, Policy: PolicyUniform, Preempt: -1}).(*Sim)
}

// BenchmarkSimSwitch measures one sleep of many processes: a timer, a choice and usually a switch.
func BenchmarkSimSwitch(b *testing.B) {
	for _, procs := range []int{1, 2, 32, 1000, 20000} {
		b.Run(fmt.Sprintf("procs=%d", procs), func(b *testing.B) {
			s := quiet()
			b.ReportAllocs()
			must(b, s.Run(func(ctx context.Context) error {
				g := NewGroup(s)
				for i := range procs {
					g.Go(ctx, "sleeper", func(ctx context.Context) error {
						for range b.N / procs {
							if err := s.Sleep(ctx, time.Microsecond*time.Duration(1+i%7)); err != nil {
								return err
							}
						}
						return nil
					})
				}
				b.ResetTimer()
				return g.Wait(ctx)
			}))
			b.ReportMetric(float64(s.Switches())/float64(b.N), "switches/op")
		})
	}
}

// BenchmarkSimYield measures a bare switch between processes that are always ready.
func BenchmarkSimYield(b *testing.B) {
	for _, procs := range []int{2, 32} {
		b.Run(fmt.Sprintf("procs=%d", procs), func(b *testing.B) {
			s := NewSim(SimOptions{Seed: 1, Policy: PolicyUniform, Preempt: -1, MaxSteps: 1 << 40}).(*Sim)
			b.ReportAllocs()
			must(b, s.Run(func(ctx context.Context) error {
				g := NewGroup(s)
				for range procs {
					g.Go(ctx, "yielder", func(ctx context.Context) error {
						for range b.N / procs {
							if err := s.Sleep(ctx, 0); err != nil {
								return err
							}
						}
						return nil
					})
				}
				b.ResetTimer()
				return g.Wait(ctx)
			}))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(s.Switches()), "ns/switch")
		})
	}
}

// worlds returns both worlds for benchmarks.
func worlds() map[string]func() World {
	return map[string]func() World{
		"real": func() World { return NewReal(1) },
		"sim": func() World {
			return NewSim(SimOptions{Seed: 1, Policy: PolicyUniform, Preempt: -1, MaxSteps: 1 << 40})
		},
	}
}

// BenchmarkQueue measures one item through a queue from one process to another.
func BenchmarkQueue(b *testing.B) {
	for name, make := range worlds() {
		for _, capacity := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/cap=%d", name, capacity), func(b *testing.B) {
				w := make()
				q := NewQueue[[]byte](w, capacity)
				b.ReportAllocs()
				must(b, w.Run(func(ctx context.Context) error {
					g := NewGroup(w)
					g.Go(ctx, "put", func(ctx context.Context) error {
						for range b.N {
							if err := q.Put(ctx, nil); err != nil {
								return err
							}
						}
						return nil
					})
					g.Go(ctx, "take", func(ctx context.Context) error {
						for range b.N {
							if _, err := q.Take(ctx); err != nil {
								return err
							}
						}
						return nil
					})
					return g.Wait(ctx)
				}))
			})
		}
	}
}

// BenchmarkQueueReady measures a put and a take that do not wait.
func BenchmarkQueueReady(b *testing.B) {
	for name, make := range worlds() {
		b.Run(name, func(b *testing.B) {
			w := make()
			q := NewQueue[int](w, 4)
			b.ReportAllocs()
			must(b, w.Run(func(ctx context.Context) error {
				for range b.N {
					if err := q.Put(ctx, 1); err != nil {
						return err
					}
					if _, err := q.Take(ctx); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// BenchmarkWaitSet measures an item through one of four queues to a process that waits for all and a deadline.
func BenchmarkWaitSet(b *testing.B) {
	for name, make := range worlds() {
		b.Run(name, func(b *testing.B) {
			w := make()
			var qs [4]*Queue[int]
			ws := NewWaitSet(w)
			for i := range qs {
				qs[i] = NewQueue[int](w, 1)
				ws.Add(qs[i].Readable())
			}
			b.ReportAllocs()
			must(b, w.Run(func(ctx context.Context) error {
				g := NewGroup(w)
				g.Go(ctx, "put", func(ctx context.Context) error {
					for i := range b.N {
						if err := qs[i%4].Put(ctx, i); err != nil {
							return err
						}
					}
					return nil
				})
				g.Go(ctx, "take", func(ctx context.Context) error {
					for range b.N {
						i, err := ws.Wait(ctx, w.Now()+time.Hour)
						if err != nil {
							return err
						}
						qs[i].TryTake()
					}
					return nil
				})
				return g.Wait(ctx)
			}))
		})
	}
}

// BenchmarkCompute measures the declaration of work that is not yet worth a switch.
func BenchmarkCompute(b *testing.B) {
	s := quiet()
	must(b, s.Run(func(ctx context.Context) error {
		for range b.N {
			s.Compute(ctx, 10*time.Nanosecond)
		}
		return nil
	}))
}
