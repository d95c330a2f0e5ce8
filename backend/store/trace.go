package store

import (
	"context"
	"errors"
	"hash/crc32"
	"iter"
	"sync/atomic"
	"time"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) // read-only: the table of a polynomial

// CRC32C is the checksum of bodies in the trace.
func CRC32C(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// UpdateCRC32C is the checksum of what crc is the checksum of, followed by more.
func UpdateCRC32C(crc uint32, more []byte) uint32 { return crc32.Update(crc, castagnoli, more) }

// appliedBy is what an error tells about the effect of a write.
func appliedBy(err error) history.Applied {
	switch {
	case err == nil:
		return history.AppliedYes
	case errors.Is(err, ErrAmbiguous):
		return history.AppliedUnknown
	}
	for _, none := range [...]error{ErrPrecondition, ErrOverwrite, ErrThrottled, ErrUnavailable, ErrNotExist, ErrKey, ErrDenied} {
		if errors.Is(err, none) {
			return history.AppliedNo
		}
	}
	return history.AppliedUnknown
}

type traced struct {
	in   Bucket
	w    world.World
	sink func(history.Request)
	seq  atomic.Uint64
}

var _ Bucket = (*traced)(nil)

// WithTrace returns b with every request reported to sink, when it ends or when its process is killed inside it. sink is
// called by the process that made the request, possibly by several at a time, and must neither block nor fail.
// Whether a write was applied comes from the decorators below where they know, else from the error.
func WithTrace(b Bucket, sink func(history.Request), w world.World) Bucket {
	return &traced{in: b, w: w, sink: sink}
}

// call is one request under way.
type call struct {
	t     *traced
	row   history.Request
	out   outcome
	write bool
	done  bool
	err   error
	more  uint64        // rows beyond the first, with the numbers that follow
	idle  time.Duration // time spent in the caller of a listing
}

// begin starts a row and returns the context for the request.
func (t *traced) begin(ctx context.Context, c *call, op, key string, put Info) context.Context {
	i := put.over(InfoOf(ctx))
	c.t = t
	c.row = history.Request{
		Seq: t.seq.Add(1+c.more) - c.more, Start: t.w.Now(), Op: op, Key: key,
		Attempt: i.Attempt, Who: i.Who, Cause: i.Cause, Checkpoint: i.Checkpoint,
	}
	c.write = op == history.OpPut || op == history.OpAbort || op == history.OpDelete
	return context.WithValue(ctx, outcomeKey{}, &c.out)
}

// end writes the row. It is deferred, so that it also runs while a killed process unwinds.
func (c *call) end() {
	c.row.Duration = c.t.w.Now() - c.row.Start - c.idle
	c.fill(&c.row, &c.out.effect, c.err)
	c.t.sink(c.row)
}

// fill completes row with the effect e of the request and the error that the caller got.
func (c *call) fill(row *history.Request, e *effect, err error) {
	row.Injected = e.injected
	row.Open = !c.done
	row.Throttled = errors.Is(err, ErrThrottled)
	switch {
	case e.applied != "" && (c.write || !c.done):
		row.Applied = e.applied
	case !c.done && c.write:
		row.Applied = history.AppliedUnknown
	case !c.done:
		row.Applied = history.AppliedNo
	case c.write:
		row.Applied = appliedBy(err)
	case err == nil:
		row.Applied = history.AppliedYes
	default:
		row.Applied = history.AppliedNo
	}
	if err != nil {
		row.Error = err.Error()
	}
}

func (c *call) finish(err error) {
	c.err, c.done = err, true
}

func (t *traced) Put(ctx context.Context, key string, body []byte, o PutOptions) error {
	var c call
	ctx = t.begin(ctx, &c, history.OpPut, key, o.Info)
	c.row.Bytes, c.row.CRC32C, c.row.IfAbsent = int64(len(body)), CRC32C(body), o.IfNotExist
	defer c.end()
	err := t.in.Put(ctx, key, body, o)
	c.finish(err)
	return err
}

func (t *traced) Get(ctx context.Context, key string) ([]byte, error) {
	var c call
	ctx = t.begin(ctx, &c, history.OpGet, key, Info{})
	defer c.end()
	body, err := t.in.Get(ctx, key)
	c.row.Bytes, c.row.CRC32C = int64(len(body)), CRC32C(body)
	c.finish(err)
	return body, err
}

func (t *traced) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	var c call
	ctx = t.begin(ctx, &c, history.OpGet, key, Info{})
	c.row.Offset = off
	defer c.end()
	body, err := t.in.GetRange(ctx, key, off, n)
	c.row.Bytes, c.row.CRC32C = int64(len(body)), CRC32C(body)
	c.finish(err)
	return body, err
}

func (t *traced) Stat(ctx context.Context, key string) (Attributes, error) {
	var c call
	ctx = t.begin(ctx, &c, history.OpStat, key, Info{})
	defer c.end()
	a, err := t.in.Stat(ctx, key)
	c.finish(err)
	return a, err
}

func (t *traced) List(ctx context.Context, prefix, startAfter string) iter.Seq2[Attributes, error] {
	return func(yield func(Attributes, error) bool) {
		var c call
		ctx := t.begin(ctx, &c, history.OpList, prefix, Info{})
		defer c.end()
		for a, err := range t.in.List(ctx, prefix, startAfter) {
			if err != nil {
				c.err = err
			} else {
				c.row.Count++
			}
			at := t.w.Now()
			more := yield(a, err)
			c.idle += t.w.Now() - at
			if !more {
				break
			}
		}
		c.finish(c.err)
	}
}

// keysPerDelete is how many keys a request can name, in S3.
const keysPerDelete = 1000

func (t *traced) Delete(ctx context.Context, keys []string) []Deleted {
	var c call
	if len(keys) == 0 {
		return t.in.Delete(ctx, keys)
	}
	c.more = uint64(len(keys) - 1)
	ctx = t.begin(ctx, &c, history.OpDelete, "", Info{})
	c.out.byKey = make(map[string]*effect, len(keys))
	effects := make([]effect, len(keys))
	for i, key := range keys {
		c.out.byKey[key] = &effects[i]
	}
	var answers []Deleted
	defer func() {
		c.row.Duration = t.w.Now() - c.row.Start
		for i, key := range keys {
			row := c.row
			row.Seq, row.Key, row.Same = c.row.Seq+uint64(i), key, i%keysPerDelete != 0
			var err error
			if i < len(answers) {
				err = answers[i].Err
			}
			c.fill(&row, c.out.byKey[key], err)
			t.sink(row)
		}
	}()
	answers = t.in.Delete(ctx, keys)
	c.finish(nil)
	return answers
}

func (t *traced) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	var c call
	ctx = t.begin(ctx, &c, history.OpUploads, prefix, Info{})
	defer c.end()
	out, err := t.in.Uploads(ctx, prefix)
	c.row.Count = int64(len(out))
	c.finish(err)
	return out, err
}

func (t *traced) AbortUpload(ctx context.Context, u Upload) error {
	var c call
	ctx = t.begin(ctx, &c, history.OpAbort, u.Key, Info{})
	defer c.end()
	err := t.in.AbortUpload(ctx, u)
	c.finish(err)
	return err
}

func (t *traced) Close() error { return t.in.Close() }
