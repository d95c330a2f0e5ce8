package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"statebench.dev/bench/internal/history"
)

// Call is one request as rules and hooks see it.
type Call struct {
	// Op is one of the Op names of package history; get stands for whole and ranged gets.
	Op string
	// Key is the object's key, for list and uploads the prefix asked for. A bulk delete is one call a key.
	Key string
	// Bytes is the size of a put's body.
	Bytes int64
	// IfNotExist marks a conditional put.
	IfNotExist bool
}

// Ops lists the names that Rule.Ops may hold, sorted.
func Ops() []string {
	return []string{history.OpAbort, history.OpDelete, history.OpGet, history.OpList, history.OpPut, history.OpStat, history.OpUploads}
}

// Rule says which requests a fault touches and how. A rule needs at least one effect; several may be combined.
//
// Its text form is a line of words, "op=put|get prefix=log/ share=0.5 status=503 delay=300ms jitter=100ms", with the
// effects without a value written as "timeout", "lost-ack", "cut" and "flip". A value with blanks or quotes is quoted as in Go.
type Rule struct {
	// Name is what hits are counted under and what names the rule's random stream; empty: the text of the rule.
	Name string
	// Ops are the operations concerned; empty means all.
	Ops []string
	// Prefix is what the key begins with.
	Prefix string
	// Share is the share of matching requests that are touched, drawn from the rule's own stream; 0 means all of them.
	Share float64
	// Request picks the n-th matching request only, counted from 1 since the rule was added; 0 means no such limit. Where the rule
	// does damage only (LostAck, Cut, Flip), requests that other rules fail are not counted.
	Request int64

	// Status makes the request fail without effect: 429 and 503 throttle (ErrThrottled), 403 refuses (ErrDenied), 500 and other 5xx are
	// ErrUnavailable, or ErrAmbiguous for a put.
	Status int
	// RetryAfter is the wait that a throttled request's answer asks for; 0: none. It goes with a Status that throttles.
	RetryAfter time.Duration
	// Timeout makes the request hang, without effect, until its context ends, one minute at most.
	Timeout bool
	// Delay and Jitter hold the request up before its effect, for Delay plus an equally distributed part of Jitter.
	Delay, Jitter time.Duration
	// LostAck lets a put, delete or abort have its effect and then answers ErrAmbiguous.
	LostAck bool
	// Cut breaks the body: a get or a listing ends early with ErrUnavailable, a put has no effect and is ErrAmbiguous.
	Cut bool
	// Flip changes one byte of the body that a get returns or a put stores, without an error.
	Flip bool

	// OnHit, where set, is called by the process that makes the request each time the rule touches one: before the effect, but
	// for a rule that only loses acknowledgements, cuts or flips, once it did so. It must not use the bucket.
	OnHit func(ctx context.Context, c Call)
}

// String returns the text form, which ParseRule reads back (but for OnHit).
func (r Rule) String() string {
	var out []string
	add := func(set bool, word string) {
		if set {
			out = append(out, word)
		}
	}
	add(r.Name != "", "name="+quote(r.Name))
	add(len(r.Ops) > 0, "op="+strings.Join(r.Ops, "|"))
	add(r.Prefix != "", "prefix="+quote(r.Prefix))
	add(r.Share != 0, "share="+strconv.FormatFloat(r.Share, 'g', -1, 64))
	add(r.Request != 0, "request="+strconv.FormatInt(r.Request, 10))
	add(r.Status != 0, "status="+strconv.Itoa(r.Status))
	add(r.RetryAfter != 0, "retry-after="+r.RetryAfter.String())
	add(r.Delay != 0, "delay="+r.Delay.String())
	add(r.Jitter != 0, "jitter="+r.Jitter.String())
	add(r.Timeout, "timeout")
	add(r.LostAck, "lost-ack")
	add(r.Cut, "cut")
	add(r.Flip, "flip")
	return strings.Join(out, " ")
}

func quote(s string) string {
	if s != "" && !strings.ContainsAny(s, "\"\\`") && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

// Validate reports every problem of the rule.
func (r Rule) Validate() error {
	var problems []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	for _, op := range r.Ops {
		bad(!slices.Contains(Ops(), op), "unknown op %q: it is one of %s", op, strings.Join(Ops(), ", "))
	}
	bad(!(r.Share >= 0 && r.Share <= 1), "share %v is not between 0 and 1", r.Share)
	bad(r.Request < 0, "request %d is negative", r.Request)
	bad(r.Status != 0 && r.Status != http.StatusForbidden && r.Status != http.StatusTooManyRequests && (r.Status < 500 || r.Status > 599),
		"status %d: it is 403, 429 or 5xx", r.Status)
	bad(r.RetryAfter < 0, "retry-after %v is negative", r.RetryAfter)
	bad(r.RetryAfter > 0 && !throttles(r.Status), "retry-after needs a status of 429 or 503")
	bad(r.Delay < 0, "delay %v is negative", r.Delay)
	bad(r.Jitter < 0, "jitter %v is negative", r.Jitter)
	bad(r.Status != 0 && r.Timeout, "status and timeout exclude each other")
	bad(r.Status == 0 && !r.Timeout && r.Delay == 0 && r.Jitter == 0 && !r.LostAck && !r.Cut && !r.Flip,
		"rule without effect: it needs one of status, timeout, delay, jitter, lost-ack, cut, flip")
	return errors.Join(problems...)
}

// throttles tells whether a status asks to be slower.
func throttles(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// ParseRule reads the text form of one rule and validates it.
func ParseRule(text string) (Rule, error) {
	var r Rule
	rest := strings.TrimSpace(text)
	for rest != "" {
		word, value, tail, err := nextWord(rest)
		if err == nil {
			err = r.set(word, value)
		}
		if err != nil {
			return Rule{}, fmt.Errorf("rule %q: %w", text, err)
		}
		rest = tail
	}
	if err := r.Validate(); err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", text, err)
	}
	return r, nil
}

// ParseRules reads what Injector.String printed: one rule a line, empty lines apart.
func ParseRules(text string) ([]Rule, error) {
	var out []Rule
	var problems []error
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		r, err := ParseRule(line)
		problems = append(problems, err)
		out = append(out, r)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return out, nil
}

// nextWord splits "key=value rest" or "flag rest"; the value may be quoted.
func nextWord(s string) (key, value, rest string, err error) {
	end := strings.IndexAny(s, "= \t\r\n")
	if end < 0 {
		return s, "", "", nil
	}
	key = s[:end]
	if s[end] != '=' {
		return key, "", strings.TrimSpace(s[end:]), nil
	}
	s = s[end+1:]
	if strings.HasPrefix(s, `"`) {
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", "", fmt.Errorf("value of %s: %w", key, err)
		}
		value, err = strconv.Unquote(q)
		return key, value, strings.TrimSpace(s[len(q):]), err
	}
	value, rest, _ = strings.Cut(s, " ")
	return key, strings.TrimSpace(value), strings.TrimSpace(rest), nil
}

// set stores one word of the text form.
func (r *Rule) set(key, value string) (err error) {
	switch key {
	case "name":
		r.Name = value
	case "op":
		r.Ops = strings.Split(value, "|")
	case "prefix":
		r.Prefix = value
	case "share":
		r.Share, err = strconv.ParseFloat(value, 64)
	case "request":
		r.Request, err = strconv.ParseInt(value, 10, 64)
	case "status":
		r.Status, err = strconv.Atoi(value)
	case "retry-after":
		r.RetryAfter, err = time.ParseDuration(value)
	case "delay":
		r.Delay, err = time.ParseDuration(value)
	case "jitter":
		r.Jitter, err = time.ParseDuration(value)
	case "timeout":
		r.Timeout = true
	case "lost-ack":
		r.LostAck = true
	case "cut":
		r.Cut = true
	case "flip":
		r.Flip = true
	default:
		return fmt.Errorf("unknown word %q", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
