package lsm

import "sync/atomic"

// life lets users of a database keep it from being closed below them. The zero value is alive.
type life struct {
	users atomic.Int64
	dead  atomic.Bool
	over  atomic.Bool
	end   func() // closes; called once, by the last user or by who kills
}

// enter begins a use; it is false once the life has ended. Each successful enter is paired with a leave.
func (l *life) enter() bool {
	l.users.Add(1)
	if l.dead.Load() {
		l.leave()
		return false
	}
	return true
}

func (l *life) leave() {
	if l.users.Add(-1) == 0 && l.dead.Load() {
		l.finish()
	}
}

func (l *life) finish() {
	if !l.over.Swap(true) {
		l.end()
	}
}

// kill ends the life, at once when nobody uses it, and tells whether it had ended before.
func (l *life) kill() (was bool) {
	was = l.dead.Swap(true)
	if l.users.Load() == 0 {
		l.finish()
	}
	return was
}
