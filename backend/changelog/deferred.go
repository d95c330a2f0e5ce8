package changelog

import (
	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/dstl"
)

// deferrer is an optional ability of a nested backend that has current values at hand: it remembers which elements of point
// states changed, so that the log hears of the last value of each when something is to become durable, and of none of the
// values before.
type deferrer interface {
	// Defer makes the backend remember changes from now on.
	Defer()
	// PutLater and DeleteLater are Put and Delete; deferred tells whether Changed will hand the element out. If not, it is
	// logged at once, and Changed hands out no earlier value of it.
	PutLater(a backend.Addr, value []byte) (deferred bool, err error)
	DeleteLater(a backend.Addr) (deferred bool, err error)
	// Deferred is the size of what Changed would hand out, in bytes; urgent asks for that.
	Deferred() (bytes int64, urgent bool)
	// Changed hands out what changed since the last call, borrowed.
	Changed(f func(a backend.Addr, value []byte, gone bool) error) error
}

// mutantBehind is a planted bug: a checkpoint cuts the log without what was deferred.
const mutantBehind = "log-behind-cut"

// lookEvery bounds how many deferred bytes come between two looks at whether an early upload is due.
const lookEvery = 64 << 10

// deferChanges makes the nested backend remember changes, if it can.
func (k *keyed) deferChanges() {
	if d, ok := k.Keyed.(deferrer); ok {
		d.Defer()
		k.later = d
	}
}

// putLater puts an element without logging it at once, if that can be.
func (k *keyed) putLater(a backend.Addr, value []byte) error {
	deferred, err := k.later.PutLater(a, value)
	if err != nil {
		return err
	}
	if !deferred {
		return k.log.Append(dstl.OpPut, a, 0, value)
	}
	return k.look()
}

func (k *keyed) deleteLater(a backend.Addr) error {
	deferred, err := k.later.DeleteLater(a)
	if err != nil {
		return err
	}
	if !deferred {
		return k.log.Append(dstl.OpDelete, a, 0, nil)
	}
	return k.look()
}

// look logs what was deferred when an early upload of it is due, when it would block the writer, or when the nested backend
// cannot remember more.
func (k *keyed) look() error {
	bytes, urgent := k.later.Deferred()
	if urgent {
		return k.logDeferred()
	}
	if bytes < k.lookAt {
		return nil
	}
	if room := k.log.Room(bytes); room > 0 {
		k.lookAt = bytes + min(room, lookEvery)
		return nil
	}
	if err := k.logDeferred(); err != nil {
		return err
	}
	k.log.Early()
	return nil
}

// logDeferred logs what was deferred: afterwards the log has everything.
func (k *keyed) logDeferred() error {
	if k.later == nil {
		return nil
	}
	k.lookAt = 0
	return k.later.Changed(func(a backend.Addr, value []byte, gone bool) error {
		if gone {
			return k.log.Gather(dstl.OpDelete, a, 0, nil)
		}
		return k.log.Gather(dstl.OpPut, a, 0, value)
	})
}

// deferredBytes is the size of what was deferred.
func (k *keyed) deferredBytes() int64 {
	if k.later == nil {
		return 0
	}
	bytes, _ := k.later.Deferred()
	return bytes
}
