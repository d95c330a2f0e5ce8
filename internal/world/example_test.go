package world_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/internal/world"
)

// A worker's loop waits for its input, its mailbox and a timer at once; the same text runs in both worlds. Here the
// simulated one lets a minute pass in no time.
func Example() {
	w := world.NewSim(world.SimOptions{Seed: 7})
	input, mailbox := world.NewQueue[int](w, 16), world.NewQueue[string](w, world.Unbounded)

	worker := func(ctx context.Context) error {
		set := world.NewWaitSet(w, mailbox.Readable(), input.Readable())
		sum, tick := 0, w.Now()+time.Minute
		for {
			i, err := set.Wait(ctx, tick)
			if err != nil {
				return err
			}
			switch i {
			case 0:
				m, ok := mailbox.TryTake()
				if ok && m == "stop" {
					fmt.Println("sum", sum, "at", w.Now())
					return nil
				}
			case 1:
				if v, ok := input.TryTake(); ok {
					w.Compute(ctx, time.Millisecond)
					sum += v
				}
			default: // the deadline
				mailbox.TryPut("stop")
				tick = world.Never
			}
		}
	}

	err := w.Run(func(ctx context.Context) error {
		g := world.NewGroup(w)
		g.Go(ctx, "worker", worker)
		for i := range 10 {
			if err := input.Put(ctx, i); err != nil {
				return err
			}
		}
		return g.Wait(ctx)
	})
	fmt.Println(err)
	// Output:
	// sum 45 at 1m0s
	// <nil>
}

// A domain dies at once and leaves no graceful trace, except on its disk, where what was synced survives.
func ExampleDomain() {
	w := world.NewSim(world.SimOptions{Seed: 1})
	d := w.NewDomain("worker-1#1", world.DomainOptions{Cores: 2})
	err := w.Run(func(ctx context.Context) error {
		g := world.NewGroup(w)
		g.Go(d.Enter(ctx), "writer", func(ctx context.Context) error {
			defer fmt.Println("deferred functions run")
			if err := d.Disk().WriteFile("synced", []byte("1")); err != nil {
				return err
			}
			if _, err := d.Disk().Create("not-synced"); err != nil {
				return err
			}
			err := w.Sleep(ctx, time.Hour)
			fmt.Println("this line is not reached")
			return err
		})
		if err := w.Sleep(ctx, time.Second); err != nil {
			return err
		}
		d.Kill()
		if err := g.Wait(ctx); !errors.Is(err, world.ErrKilled) {
			return err
		}
		d.Disk().Crash()
		restarted := w.NewDomain("worker-1#2", world.DomainOptions{Cores: 2, Disk: d.Disk()})
		names, err := restarted.Disk().List("")
		fmt.Println(names)
		return err
	})
	fmt.Println(err)
	// Output:
	// deferred functions run
	// [synced]
	// <nil>
}

// An ordinary test of code that takes a World needs neither Run nor a simulation.
func ExampleNewReal() {
	w := world.NewReal(1)
	ctx := context.Background()
	q := world.NewQueue[string](w, 1)
	w.Go(ctx, "greeter", func(ctx context.Context) error { return q.Put(ctx, "hello") })
	v, err := q.Take(ctx)
	fmt.Println(v, err)
	// Output: hello <nil>
}
