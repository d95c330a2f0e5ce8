package store

import "context"

type infoKey struct{}

// WithInfo returns a context whose requests are made on behalf of i. Fields of i that are empty keep what ctx has.
func WithInfo(ctx context.Context, i Info) context.Context {
	return context.WithValue(ctx, infoKey{}, i.over(InfoOf(ctx)))
}

// InfoOf returns what WithInfo put into ctx, or the zero Info.
func InfoOf(ctx context.Context) Info {
	i, _ := ctx.Value(infoKey{}).(Info)
	return i
}

// over fills the empty fields of i from under.
func (i Info) over(under Info) Info {
	if i.Cause == "" {
		i.Cause = under.Cause
	}
	if i.Who == "" {
		i.Who = under.Who
	}
	if i.Attempt == 0 {
		i.Attempt = under.Attempt
	}
	if i.Checkpoint == 0 {
		i.Checkpoint = under.Checkpoint
	}
	return i
}
