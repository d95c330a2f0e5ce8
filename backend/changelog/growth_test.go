package changelog_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/changelog"
	"statebench.dev/bench/internal/history"
)

// noise is text of n bytes that nothing compresses.
func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.UintN(256))
	}
	return string(b)
}

// grow fills s with values and takes checkpoints from number id on, a value a key group each, until it materializes or most are taken. It returns the next
// number and the size of the log when the last one completed.
func (s *sub) grow(id uint64, most int, value func() string) (next uint64, log int64) {
	begun := len(s.r.events(history.MaterializationBegin))
	for range most {
		for g := s.Range().From; g < s.Range().To; g++ {
			ok(s.Put(backend.Addr{State: s.state, Group: g, Key: []byte("key")}, []byte(value())))
		}
		s.persist(s.begin(id))
		log = s.Gauges().LogBytes
		ok(s.Completed(s.r.worker.Ctx, id, id-1))
		id++
		if len(s.r.events(history.MaterializationBegin)) > begun {
			break
		}
	}
	return id, log
}

// TestGrownLogIsMaterializedByDefault: without any option a log as large as its state is materialized, but not below the floor.
// Each of the options turns its part off.
func TestGrownLogIsMaterializedByDefault(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     changelog.Options
		value int // bytes; there are 16 of them
		begun bool
	}{
		{"default", changelog.Options{}, 30 << 10, true},
		{"below the floor", changelog.Options{}, 3 << 10, false},
		{"off", changelog.Options{GrowthOff: true}, 30 << 10, false},
		{"lower floor", changelog.Options{GrowthFloor: 1}, 3 << 10, true},
		{"larger part", changelog.Options{Growth: 9}, 30 << 10, false},
		{"replay alone", changelog.Options{GrowthOff: true, ReplayBudget: 10 * time.Millisecond}, 30 << 10, true},
		{"never", changelog.Options{MaterializeOff: true}, 30 << 10, false},
	} {
		simulate(t, func(r *rig) {
			o := c.o
			o.Materialize = time.Hour
			r.start(factory(o))
			s := r.open(0, 1)
			random := rand.New(rand.NewPCG(1, 2))
			_, log := s.grow(1, 6, func() string { return noise(random, c.value) })
			begun := len(r.events(history.MaterializationBegin)) > 0
			want(begun == c.begun, "%s: begun is %t with a log of %d bytes and a state of %d", c.name, begun, log, s.Gauges().LiveBytes)
			want(!begun || log < 1<<20+600<<10, "%s: only with a log of %d bytes", c.name, log)
			s.sleep(time.Second)
			r.end(s)
		})
	}
}

// TestGrowthIsOfTheStoredBase: the log is compared with the base as it is stored. A state that compresses to a part of itself would
// otherwise let checkpoints hold several times its base.
func TestGrowthIsOfTheStoredBase(t *testing.T) {
	simulate(t, func(r *rig) {
		r.start(factory(changelog.Options{Materialize: time.Minute, Growth: 1, GrowthFloor: 1}))
		s := r.open(0, 1)
		n := byte(0)
		value := func() string {
			n++
			return strings.Repeat("many a word "+string('a'+n), 3000)
		}
		s.fill(value())
		s.checkpoint(1)
		s.sleep(time.Minute)
		base := s.checkpoint(2).Handle.BaseBytes()
		live := s.Gauges().LiveBytes
		want(base > 0 && 4*base < live, "the base has %d bytes of a state of %d", base, live)
		_, log := s.grow(3, 100, value)
		want(log > base && log < live/2, "materialized with a log of %d bytes over a base of %d, state %d", log, base, live)
		want(len(r.events(history.MaterializationBegin)) == 2, "not materialized")
		s.sleep(time.Second)
		r.end(s)
	})
}
