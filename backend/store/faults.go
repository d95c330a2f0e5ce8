package store

import (
	"bytes"
	"context"
	"iter"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

// hang is how long a request waits for an answer that does not come, when its context does not end earlier.
const hang = time.Minute

type faulty struct {
	in  Bucket
	inj *Injector
	w   world.World
}

var _ Bucket = (*faulty)(nil)

// WithFaults returns b with every request put before inj. Close is no request.
func WithFaults(b Bucket, inj *Injector, w world.World) Bucket {
	return &faulty{in: b, inj: inj, w: w}
}

// before asks about c and carries out what comes before the effect. Where it returns an error, the request had no effect.
func (f *faulty) before(ctx context.Context, c Call) (Decision, error) {
	out := outcomeOf(ctx)
	out.report(c.Key, history.AppliedNo)
	d := f.inj.Before(ctx, c)
	if d.Touched() {
		out.reportInjected(c.Key)
	}
	if err := f.wait(ctx, d); err != nil {
		return d, err
	}
	return d, d.err(c)
}

func (f *faulty) wait(ctx context.Context, d Decision) error {
	if d.Delay > 0 {
		if err := f.w.Sleep(ctx, d.Delay); err != nil {
			return err
		}
	}
	if d.Timeout {
		return f.w.Sleep(ctx, hang)
	}
	return nil
}

func (f *faulty) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	out := outcomeOf(ctx)
	c := Call{Op: history.OpPut, Key: key, Bytes: int64(len(body)), IfNotExist: o.IfNotExist}
	d, err := f.before(ctx, c)
	if err != nil {
		return err
	}
	if d.Cut {
		d.happened(ctx, c)
		return injected(ErrAmbiguous, "connection lost in the middle of the body")
	}
	if d.Flip {
		body = bytes.Clone(body)
		flip(body, d.at)
	}
	out.report(key, history.AppliedUnknown)
	err = f.in.Put(ctx, key, body, o)
	out.settle(key, err)
	if err != nil {
		return err
	}
	d.happened(ctx, c)
	if d.LostAck {
		return injected(ErrAmbiguous, "acknowledgement lost")
	}
	return nil
}

func (f *faulty) Get(ctx context.Context, key string) ([]byte, error) {
	return f.get(ctx, key, func() ([]byte, error) { return f.in.Get(ctx, key) })
}

func (f *faulty) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return f.get(ctx, key, func() ([]byte, error) { return f.in.GetRange(ctx, key, off, n) })
}

func (f *faulty) get(ctx context.Context, key string, get func() ([]byte, error)) ([]byte, error) {
	c := Call{Op: history.OpGet, Key: key}
	d, err := f.before(ctx, c)
	if err != nil {
		return nil, err
	}
	body, err := get()
	if err != nil {
		return body, err
	}
	if d.Cut || d.Flip && len(body) > 0 {
		d.happened(ctx, c)
	}
	return f.inj.After(d, body, nil)
}

func (f *faulty) Stat(ctx context.Context, key string) (Attributes, error) {
	if _, err := f.before(ctx, Call{Op: history.OpStat, Key: key}); err != nil {
		return Attributes{}, err
	}
	return f.in.Stat(ctx, key)
}

func (f *faulty) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		c := Call{Op: history.OpList, Key: prefix}
		d, err := f.before(ctx, c)
		if err != nil {
			yield(Attributes{}, err)
			return
		}
		left := memPage
		if d.Cut {
			left = int(d.at * memPage)
		}
		for a, err := range f.in.List(ctx, prefix, startAfter) {
			if d.Cut {
				if left--; left < 0 {
					break
				}
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
		if d.Cut {
			d.happened(ctx, c)
			yield(Attributes{}, injected(ErrUnavailable, "listing cut"))
		}
	}
}

func (f *faulty) Delete(ctx context.Context, keys []string) []Deleted {
	out := outcomeOf(ctx)
	answers := make([]Deleted, len(keys))
	decisions := make([]Decision, len(keys))
	var all Decision // the request waits for the longest of its keys' delays
	for i, key := range keys {
		out.report(key, history.AppliedNo)
		d := f.inj.Before(ctx, Call{Op: history.OpDelete, Key: key})
		if d.Touched() {
			out.reportInjected(key)
		}
		decisions[i] = d
		all.Delay, all.Timeout = max(all.Delay, d.Delay), all.Timeout || d.Timeout
	}
	if err := f.wait(ctx, all); err != nil {
		return deletedAll(keys, err)
	}
	var pass []string
	var place []int
	for i, key := range keys {
		answers[i] = Deleted{Key: key, Err: decisions[i].err(Call{Op: history.OpDelete, Key: key})}
		if answers[i].Err == nil {
			pass, place = append(pass, key), append(place, i)
			out.report(key, history.AppliedUnknown)
		}
	}
	if len(pass) == 0 {
		return answers
	}
	for j, d := range f.in.Delete(ctx, pass) {
		out.settle(d.Key, d.Err)
		if by := decisions[place[j]]; d.Err == nil && by.LostAck {
			by.happened(ctx, Call{Op: history.OpDelete, Key: d.Key})
			d.Err = injected(ErrAmbiguous, "acknowledgement lost")
		}
		answers[place[j]].Err = d.Err
	}
	return answers
}

func (f *faulty) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	if _, err := f.before(ctx, Call{Op: history.OpUploads, Key: prefix}); err != nil {
		return nil, err
	}
	return f.in.Uploads(ctx, prefix)
}

func (f *faulty) AbortUpload(ctx context.Context, u Upload) error {
	c := Call{Op: history.OpAbort, Key: u.Key}
	d, err := f.before(ctx, c)
	if err != nil {
		return err
	}
	out := outcomeOf(ctx)
	out.report(u.Key, history.AppliedUnknown)
	err = f.in.AbortUpload(ctx, u)
	out.settle(u.Key, err)
	if err == nil && d.LostAck {
		d.happened(ctx, c)
		return injected(ErrAmbiguous, "acknowledgement lost")
	}
	return err
}

func (f *faulty) Close() error { return f.in.Close() }
