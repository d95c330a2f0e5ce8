package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/world"
)

func TestRuleTextReadsBack(t *testing.T) {
	for _, text := range []string{
		"status=503",
		"name=slow op=put|get prefix=log/ share=0.25 request=3 status=500 delay=300ms jitter=1.5s",
		`name="two words" prefix="a b\"c" lost-ack`,
		"op=get cut flip", "op=delete timeout", "prefix=ü cut",
	} {
		r := rule(t, text)
		again := rule(t, r.String())
		if r.String() != again.String() || !slices.Equal(r.Ops, again.Ops) || r.Prefix != again.Prefix || r.Name != again.Name {
			t.Errorf("%q reads back as %q", r, again)
		}
	}
	inj := store.NewInjector(world.NewReal(1))
	inj.Add(rule(t, "op=put status=503"))
	inj.Add(rule(t, "delay=1s"))
	rules, err := store.ParseRules(inj.String())
	if err != nil || len(rules) != 2 || rules[1].Delay != time.Second {
		t.Errorf("ParseRules(%q) = %v, %v", inj, rules, err)
	}
}

func TestRuleReportsEveryProblem(t *testing.T) {
	for text, want := range map[string][]string{
		"op=put|shout share=2 request=-1 status=404 delay=-1s": {`"shout"`, "share 2", "request -1", "status 404", "delay -1s"},
		"op=put":              {"without effect"},
		"status=503 timeout":  {"exclude"},
		"status=503 colour=3": {`"colour"`},
		"share=NaN flip":      {"share NaN"},
		"delay=fast":          {"delay"},
		`prefix="open flip`:   {"prefix"},
	} {
		_, err := store.ParseRule(text)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("ParseRule(%q): %v, want something about %s", text, err, part)
			}
		}
	}
}

func FuzzRuleText(f *testing.F) {
	f.Add(`name="x y" op=put|get prefix=log/ share=0.5 request=1 status=503 delay=1ms jitter=2s timeout lost-ack cut flip`)
	f.Add("prefix=\"\\u00fc\" flip")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := store.ParseRule(text)
		if err != nil {
			return
		}
		again, err := store.ParseRule(r.String())
		if err != nil || again.String() != r.String() || again.Prefix != r.Prefix || again.Name != r.Name {
			t.Errorf("%q -> %q -> %q, %v", text, r, again, err)
		}
	})
}

// TestFaultsOnEachOperation: which error the caller gets, whether the store changed, and that the trace knows.
func TestFaultsOnEachOperation(t *testing.T) {
	type c struct {
		rule    string
		op      string
		err     error // nil: none
		applied history.Applied
	}
	yes, no := history.AppliedYes, history.AppliedNo
	for _, c := range []c{
		{"status=503", "put", store.ErrThrottled, no}, {"status=429", "put", store.ErrThrottled, no},
		{"status=500", "put", store.ErrAmbiguous, no}, {"status=403", "put", store.ErrDenied, no},
		{"timeout", "put", store.ErrAmbiguous, no}, {"lost-ack", "put", store.ErrAmbiguous, yes},
		{"cut", "put", store.ErrAmbiguous, no}, {"flip", "put", nil, yes}, {"delay=1s", "put", nil, yes},
		{"status=503", "get", store.ErrThrottled, no}, {"status=500", "get", store.ErrUnavailable, no},
		{"timeout", "get", store.ErrUnavailable, no}, {"cut", "get", io.ErrUnexpectedEOF, no}, {"cut", "get", store.ErrUnavailable, no},
		{"flip", "get", nil, yes}, {"lost-ack", "get", nil, yes},
		{"status=502", "stat", store.ErrUnavailable, no}, {"status=502", "list", store.ErrUnavailable, no},
		{"cut", "list", store.ErrUnavailable, no}, {"status=500", "uploads", store.ErrUnavailable, no},
		{"status=500", "delete", store.ErrUnavailable, no}, {"lost-ack", "delete", store.ErrAmbiguous, yes},
		{"delay=1s", "delete", nil, yes}, {"timeout", "delete", store.ErrUnavailable, no},
		{"status=500", "abort", store.ErrUnavailable, no}, {"lost-ack", "abort", store.ErrAmbiguous, yes},
	} {
		t.Run(c.op+" "+c.rule, func(t *testing.T) {
			inSim(t, 3, func(ctx context.Context, w world.World) {
				m := store.NewMem()
				m.Put(ctx, "there", []byte("body"), store.PutOptions{})
				u, _ := m.BeginUpload(ctx, "up", nil)
				inj := store.NewInjector(w)
				r := rule(t, c.rule)
				r.Name = "r"
				inj.Add(r)
				var trace rows
				b := store.WithTrace(store.WithFaults(m, inj, w), trace.add, w)
				err, changed := request(ctx, b, m, c.op, u)
				if c.err == nil && err != nil || c.err != nil && (!errors.Is(err, c.err) || !errors.Is(err, store.ErrInjected)) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				row := trace.last(t)
				if row.Op != c.op || row.Applied != c.applied {
					t.Errorf("row %+v, want applied %s", row, c.applied)
				}
				write := c.op == "put" || c.op == "delete" || c.op == "abort"
				if write && changed != (c.applied == yes) {
					t.Errorf("changed %v, but applied %s", changed, row.Applied)
				}
				effective := c.rule != "lost-ack" || write
				if hit := inj.Hits("r") == 1; row.Injected != effective || hit != effective {
					t.Errorf("injected %v, hit %v, want %v", row.Injected, hit, effective)
				}
			})
		})
	}
}

// request makes one request on b and tells whether the store m under it changed.
func request(ctx context.Context, b store.Bucket, m *store.Mem, op string, u store.Upload) (err error, changed bool) {
	switch op {
	case "put":
		err = b.Put(ctx, "new", []byte("body"), store.PutOptions{})
		_, serr := m.Stat(ctx, "new")
		changed = serr == nil
	case "get":
		_, err = b.Get(ctx, "there")
	case "stat":
		_, err = b.Stat(ctx, "there")
	case "list":
		for _, err = range b.List(ctx, "", "") {
		}
	case "uploads":
		_, err = b.Uploads(ctx, "")
	case "delete":
		err = b.Delete(ctx, []string{"there"})[0].Err
		_, serr := m.Stat(ctx, "there")
		changed = serr != nil
	case "abort":
		err = b.AbortUpload(ctx, u)
		open, _ := m.Uploads(ctx, "")
		changed = len(open) == 0
	}
	return err, changed
}

func TestFlipChangesOneByte(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		inj := store.NewInjector(w)
		remove := inj.Add(rule(t, "op=put flip"))
		body := []byte("0123456789")
		b := store.WithFaults(m, inj, w)
		b.Put(ctx, "k", body, store.PutOptions{})
		if string(body) != "0123456789" {
			t.Errorf("the caller's body became %q", body)
		}
		got, _ := b.Get(ctx, "k")
		differ := 0
		for i := range got {
			if got[i] != body[i] {
				differ++
			}
		}
		if len(got) != 10 || differ != 1 {
			t.Errorf("stored %q", got)
		}
		remove()
		remove()
		b.Put(ctx, "empty", nil, store.PutOptions{})
		inj.Add(rule(t, "flip"))
		if got, err := b.Get(ctx, "empty"); err != nil || len(got) != 0 {
			t.Errorf("flip of nothing: %q, %v", got, err)
		}
	})
}

func TestRuleSelectsRequests(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		inj := store.NewInjector(w)
		b := store.WithFaults(store.NewMem(), inj, w)
		var seen []store.Call
		r := rule(t, "name=third op=put prefix=log/ request=3 status=503")
		r.OnHit = func(_ context.Context, c store.Call) { seen = append(seen, c) }
		remove := inj.Add(r)
		failed := ""
		for i := range 6 {
			b.Put(ctx, fmt.Sprintf("base/%d", i), nil, store.PutOptions{})
			b.Get(ctx, fmt.Sprintf("log/%d", i))
			if err := b.Put(ctx, fmt.Sprintf("log/%d", i), []byte("xy"), store.PutOptions{}); err != nil {
				failed += fmt.Sprint(i)
			}
		}
		if failed != "2" || inj.Hits("third") != 1 || len(seen) != 1 || seen[0] != (store.Call{Op: "put", Key: "log/2", Bytes: 2}) {
			t.Errorf("failed %q, hits %d, seen %v", failed, inj.Hits("third"), seen)
		}
		remove()
		if inj.String() != "" || inj.Hits("third") != 1 {
			t.Errorf("after removal: %q, %d hits", inj, inj.Hits("third"))
		}
		if inj.Asked("put") != 12 || inj.Asked("get") != 6 {
			t.Errorf("asked %d puts, %d gets", inj.Asked("put"), inj.Asked("get"))
		}
	})
}

// TestRulesDoNotMoveEachOthersDraws: what a rule hits does not depend on other rules being there.
func TestRulesDoNotMoveEachOthersDraws(t *testing.T) {
	hits := func(others ...string) (out []string) {
		inSim(t, 11, func(ctx context.Context, w world.World) {
			inj := store.NewInjector(w)
			for _, text := range others {
				inj.Add(rule(t, text))
			}
			r := rule(t, "name=it share=0.3 status=503")
			r.OnHit = func(_ context.Context, c store.Call) { out = append(out, c.Key) }
			inj.Add(r)
			b := store.WithFaults(store.NewMem(), inj, w)
			for i := range 200 {
				b.Put(ctx, fmt.Sprint(i), nil, store.PutOptions{})
			}
		})
		return out
	}
	alone := hits()
	if len(alone) < 40 || len(alone) > 80 {
		t.Errorf("share 0.3 hit %d of 200", len(alone))
	}
	if with := hits("name=other share=0.5 delay=1ms jitter=5ms", "op=get status=500"); !slices.Equal(alone, with) {
		t.Errorf("hits moved:\n%v\n%v", alone, with)
	}
}

func TestDelayAndErrorAddUp(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		inj := store.NewInjector(w)
		inj.Add(rule(t, "name=a delay=10ms"))
		inj.Add(rule(t, "name=b delay=5ms status=503"))
		inj.Add(rule(t, "name=c status=500"))
		inj.Add(rule(t, "name=d lost-ack"))
		b := store.WithFaults(store.NewMem(), inj, w)
		err := b.Put(ctx, "k", nil, store.PutOptions{})
		if !errors.Is(err, store.ErrThrottled) || w.Now() != 15*ms {
			t.Errorf("%v at %v", err, w.Now())
		}
		if inj.Hits("a") != 1 || inj.Hits("b") != 1 || inj.Hits("c") != 1 || inj.Hits("d") != 0 {
			t.Error("a rule without effect counted as hit, or one with effect did not")
		}
	})
}

// TestNthRequestToDamageIsOneThatCanBe: requests that another rule fails, wherever it stands, do not count.
func TestNthRequestToDamageIsOneThatCanBe(t *testing.T) {
	for _, damageFirst := range []bool{false, true} {
		inSim(t, 1, func(ctx context.Context, w world.World) {
			m := store.NewMem()
			m.Put(ctx, "k", []byte("body"), store.PutOptions{})
			inj := store.NewInjector(w)
			rules := []string{"name=errors op=get status=500 request=1", "name=damage op=get request=2 flip"}
			if damageFirst {
				slices.Reverse(rules)
			}
			for _, text := range rules {
				inj.Add(rule(t, text))
			}
			b := store.WithFaults(m, inj, w)
			var got []string
			for range 4 {
				body, err := b.Get(ctx, "k")
				got = append(got, fmt.Sprint(string(body) == "body", err != nil))
			}
			if want := []string{"false true", "true false", "false false", "true false"}; !slices.Equal(got, want) || inj.Hits("damage") != 1 {
				t.Errorf("damage first: %t: whole and failed: %v, want %v", damageFirst, got, want)
			}
		})
	}
}

func TestBulkDeleteFailsByKey(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		inj := store.NewInjector(w)
		inj.Add(rule(t, "prefix=bad status=500 delay=20ms"))
		var trace rows
		b := store.WithTrace(store.WithFaults(m, inj, w), trace.add, w)
		keys := []string{"a", "bad1", "b", "bad2", "c"}
		for _, key := range keys {
			m.Put(ctx, key, nil, store.PutOptions{})
		}
		for i, d := range b.Delete(store.WithInfo(ctx, store.Info{Who: "worker-1", Cause: "clean-up"}), keys) {
			_, serr := m.Stat(ctx, keys[i])
			bad := strings.HasPrefix(keys[i], "bad")
			if d.Key != keys[i] || (d.Err != nil) != bad || (serr == nil) != bad {
				t.Errorf("%+v, stat %v", d, serr)
			}
			row := trace[i]
			if row.Key != d.Key || row.Seq != uint64(i+1) || row.Injected != bad || (row.Applied == history.AppliedNo) != bad ||
				row.Who != "worker-1" || row.Cause != "clean-up" || row.Duration != 20*ms {
				t.Errorf("row %+v", row)
			}
		}
		if len(trace) != len(keys) {
			t.Errorf("%d rows", len(trace))
		}
	})
}

func TestTimeoutEndsWithItsContext(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		inj := store.NewInjector(w)
		inj.Add(rule(t, "timeout"))
		b := store.WithFaults(store.NewMem(), inj, w)
		short, cancel := w.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := b.Get(short, "k"); !errors.Is(err, context.DeadlineExceeded) || w.Now() != 2*time.Second {
			t.Errorf("%v at %v", err, w.Now())
		}
		if _, err := b.Get(ctx, "k"); !errors.Is(err, store.ErrUnavailable) || w.Now() != 62*time.Second {
			t.Errorf("%v at %v", err, w.Now())
		}
	})
}

func TestCutListingIsAPrefixOfTheWhole(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		for i := range 3000 {
			m.Put(ctx, fmt.Sprintf("%04d", i), nil, store.PutOptions{})
		}
		inj := store.NewInjector(w)
		inj.Add(rule(t, "op=list cut"))
		n := 0
		var last error
		for a, err := range store.WithFaults(m, inj, w).List(ctx, "", "") {
			if last = err; err == nil {
				if a.Key != fmt.Sprintf("%04d", n) {
					t.Fatalf("entry %d is %q", n, a.Key)
				}
				n++
			}
		}
		if n >= 1000 || !errors.Is(last, store.ErrUnavailable) {
			t.Errorf("%d entries, %v", n, last)
		}
	})
}

func TestPutUnderFaultsKeepsItsBytes(t *testing.T) {
	inSim(t, 1, func(ctx context.Context, w world.World) {
		m := store.NewMem()
		inj := store.NewInjector(w)
		inj.Add(rule(t, "op=put share=0.5 lost-ack"))
		b := store.WithRetry(store.WithFaults(m, inj, w), store.RetryPolicy{Attempts: 50}, w)
		for i := range 50 {
			body := bytes.Repeat([]byte{byte(i)}, 100)
			if err := b.Put(ctx, fmt.Sprint(i), body, store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			if got, err := m.Get(ctx, fmt.Sprint(i)); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}
