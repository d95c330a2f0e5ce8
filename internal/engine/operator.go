package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/checkpoint"
	"statebench.dev/bench/internal/graph"
	"statebench.dev/bench/internal/keygroup"
)

// Errors of an operator that asks for timers which it cannot have.
var (
	errNoTimers           = errors.New("timers need a keyed operator")
	errNoProcessingTimers = errors.New("timers of processing time need a keyed operator that is a graph.ProcessingTimed")
)

// operator runs one instance of a node's user code and is its context.
type operator struct {
	s         *subtask
	code      graph.Operator
	out       downstream
	ctx       context.Context // of the loop, for the user code
	state     *backend.Context
	timers    *timers
	watermark int64
	group     keygroup.ID

	second     graph.TwoInput        // nil: the operator has one input
	timed      graph.ProcessingTimed // nil: it has no timers of processing time
	processing *timers               // likewise
}

var (
	_ taker                 = (*operator)(nil)
	_ graph.OperatorContext = (*operator)(nil)
)

func newOperator(s *subtask, out downstream) *operator {
	o := &operator{s: s, code: s.node.Operator(), out: out, watermark: noWatermark}
	o.second, _ = o.code.(graph.TwoInput)
	if s.node.Keyed {
		o.timed, _ = o.code.(graph.ProcessingTimed)
	}
	return o
}

func (o *operator) open(ctx context.Context) error {
	o.ctx = ctx
	if o.s.keyed != nil {
		o.state = backend.NewContext(o.s.keyed)
		var err error
		if o.timers, err = newTimers(o.state, timerState); err != nil {
			return err
		}
		if o.mutant(mutantForgetTimers) {
			o.timers.heap = nil
		}
		o.timers.keep = o.mutant(mutantKeepTimers)
		if o.timed != nil {
			if o.processing, err = newTimers(o.state, processingTimerState); err != nil {
				return err
			}
		}
	}
	// Operator state comes first, as in Flink, where a function is initialised before it is opened.
	if f, ok := o.code.(graph.Stateful); ok && o.s.loop.a.d.Restored != 0 {
		if err := f.RestoreOperatorState(ctx, o.s.d.Parts); err != nil {
			return fmt.Errorf("restore operator state: %w", err)
		}
	}
	if err := o.code.Open(ctx, o); err != nil {
		return fmt.Errorf("open operator: %w", err)
	}
	return nil
}

func (o *operator) process(r *graph.Record, group keygroup.ID) error {
	o.group = group
	if o.state != nil {
		o.state.SetKey(group, r.Key)
	}
	return o.code.Process(o.ctx, r, o.out)
}

// processSecond is process for the second input. A broadcast record is every subtask's: its key is not one of this one's.
func (o *operator) processSecond(r *graph.Record, group keygroup.ID, broadcast bool) error {
	o.group = group
	switch {
	case o.state == nil:
	case broadcast:
		o.state.ClearKey()
	default:
		o.state.SetKey(group, r.Key)
	}
	return o.second.ProcessSecond(o.ctx, r, o.out)
}

// advance fires the timers that the watermark makes due before it passes the watermark on, so that what they emit is not late.
func (o *operator) advance(watermark int64) error {
	o.watermark = watermark
	if err := o.fire(); err != nil {
		return err
	}
	return o.out.advance(watermark)
}

// settle fires timers that were registered for a time that has been reached already: at the end of a batch, so that the state at a
// barrier does not depend on when the watermark came last.
func (o *operator) settle(time.Duration) error { return o.fire() }

func (o *operator) fire() error {
	if o.timers == nil {
		return nil
	}
	if o.timers.due(o.watermark) {
		err := o.timers.fire(o.watermark, func(at int64, key []byte, group keygroup.ID) error {
			// What expires by the time of a timer is gone when it fires, wherever the watermark stands.
			if err := o.expire(at); err != nil {
				return err
			}
			o.group = group
			return o.code.OnTimer(o.ctx, at, key, o.out)
		})
		if err != nil {
			return err
		}
	}
	return o.expire(o.watermark)
}

// expire removes what has expired by a watermark.
func (o *operator) expire(at int64) error {
	if o.mutant(mutantForgetExpiry) {
		return nil
	}
	return o.state.Expire(at)
}

// fireProcessing fires the timers of processing time that are due. It is called between batches, so that no record sees a half of it.
func (o *operator) fireProcessing(now time.Duration) error {
	return o.processing.fire(int64(now), func(at int64, key []byte, group keygroup.ID) error {
		o.group = group
		return o.timed.OnProcessingTimer(o.ctx, time.Duration(at), key, o.out)
	})
}

// earliest is the time of the first timer of processing time, 0 when there is none. One that was deleted counts until its time.
func (o *operator) earliest() time.Duration {
	if o.processing == nil {
		return 0
	}
	at, ok := o.processing.next()
	if !ok {
		return 0
	}
	return max(1, time.Duration(at))
}

func (o *operator) retire() { o.out.retire() }

// mutant tells whether a planted bug is switched on.
func (o *operator) mutant(name string) bool { return o.s.loop.a.w.cfg.Failpoints.Mutant(name) }

func (o *operator) snapshot(ctx context.Context, _ uint64, part *checkpoint.SubtaskState) error {
	f, ok := o.code.(graph.Stateful)
	if !ok {
		return nil
	}
	parts, err := f.SnapshotOperatorState(ctx)
	if err != nil {
		return fmt.Errorf("snapshot operator state: %w", err)
	}
	part.Parts = parts
	return nil
}

func (o *operator) completed(context.Context, uint64) error { return nil }

// State implements graph.OperatorContext.
func (o *operator) State() *backend.Context { return o.state }

// RegisterTimer implements graph.OperatorContext.
func (o *operator) RegisterTimer(at int64) error {
	if o.timers == nil {
		return errNoTimers
	}
	return o.timers.register(at)
}

// DeleteTimer implements graph.OperatorContext.
func (o *operator) DeleteTimer(at int64) error {
	if o.timers == nil {
		return errNoTimers
	}
	return o.timers.delete(at)
}

// RegisterProcessingTimer implements graph.OperatorContext.
func (o *operator) RegisterProcessingTimer(at time.Duration) error {
	if o.processing == nil {
		return errNoProcessingTimers
	}
	return o.processing.register(int64(at))
}

// DeleteProcessingTimer implements graph.OperatorContext.
func (o *operator) DeleteProcessingTimer(at time.Duration) error {
	if o.processing == nil {
		return errNoProcessingTimers
	}
	return o.processing.delete(int64(at))
}

// ProcessingTime implements graph.OperatorContext.
func (o *operator) ProcessingTime() time.Duration { return o.s.loop.producer.now }

// Watermark implements graph.OperatorContext.
func (o *operator) Watermark() int64 { return o.watermark }

// Subtask implements graph.OperatorContext.
func (o *operator) Subtask() int { return o.s.d.Index }

// Parallelism implements graph.OperatorContext.
func (o *operator) Parallelism() int { return o.s.loop.a.d.Parallelism }

// MaxParallelism implements graph.OperatorContext.
func (o *operator) MaxParallelism() int { return o.s.loop.a.w.cfg.Settings.MaxParallelism }

// KeyGroup implements graph.OperatorContext.
func (o *operator) KeyGroup() keygroup.ID { return o.group }
