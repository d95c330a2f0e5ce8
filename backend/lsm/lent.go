package lsm

// lentChunk is the memory that reads share until the next write.
const lentChunk = 64 << 10

// lent holds the bytes that reads handed out: they are valid until the next write. Chunks that were filled are left to the
// garbage collector, so memory is bounded by what callers still refer to.
type lent struct{ buf []byte }

// keep returns a copy of b that is valid until reset.
func (l *lent) keep(b []byte) []byte {
	n := len(b)
	if n > cap(l.buf)-len(l.buf) {
		if n > lentChunk/4 {
			return append([]byte(nil), b...)
		}
		l.buf = make([]byte, 0, lentChunk)
	}
	at := len(l.buf)
	l.buf = append(l.buf, b...)
	return l.buf[at : at+n : at+n]
}

// reset takes all memory back.
func (l *lent) reset() { l.buf = l.buf[:0] }
