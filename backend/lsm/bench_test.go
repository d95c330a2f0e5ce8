package lsm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"statebench.dev/bench/backend"
	"statebench.dev/bench/backend/store"
	"statebench.dev/bench/internal/keygroup"
	"statebench.dev/bench/internal/world"
)

const (
	benchKeys   = 1 << 20
	benchGroups = 128
)

// bencher is a subtask with keys of 8 bytes and values of 100, half of them random.
type bencher struct {
	*rig
	key, value []byte
	zipf       *rand.Zipf
}

// benched runs f with n keys.
func benched(b *testing.B, n int, f func(r *bencher)) {
	inWorld(b, world.NewReal(1), store.NewMem(), Options{}, func(r *rig) {
		r.open()
		ok(r.k.Close(r.ctx))
		r.k = r.subtask("count-1", keygroup.Range{To: benchGroups})
		var err error
		r.state, err = r.k.Register(backend.Spec("v", backend.Value))
		ok(err)
		e := &bencher{rig: r, key: make([]byte, 8), value: make([]byte, 100)}
		e.zipf = rand.NewZipf(r.rng, 1.1, 1, uint64(max(n, 2)-1))
		for i := range uint64(n) {
			e.put(i)
		}
		f(e)
		r.close()
	})
}

func (e *bencher) place(i uint64) backend.Addr {
	binary.BigEndian.PutUint64(e.key, i)
	return backend.Addr{State: e.state, Group: keygroup.Of(keygroup.HashInt64(int64(i)), benchGroups), Key: e.key}
}

func (e *bencher) put(i uint64) {
	for at := 0; at < 50; at += 8 {
		binary.LittleEndian.PutUint64(e.value[at:], e.rng.Uint64())
	}
	ok(e.k.Put(e.place(i), e.value))
}

// cpu is the CPU time that the process has used on all threads: on a machine that does other things too it says more than
// the clock. Flushes, compactions and garbage collection are in it.
func cpu() time.Duration {
	var u syscall.Rusage
	ok(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perOp reports the CPU time since began, for one of n operations.
func perOp(b *testing.B, began time.Duration, n int) {
	b.ReportMetric(float64(cpu()-began)/float64(n), "cpu-ns/op")
}

// BenchmarkInsert is a put of a new key, flushes and compactions beside it included as far as they hold it up.
func BenchmarkInsert(b *testing.B) {
	benched(b, 0, func(r *bencher) {
		b.ReportAllocs()
		began := cpu()
		for i := uint64(0); b.Loop(); i++ {
			r.put(i)
		}
		perOp(b, began, b.N)
	})
}

// BenchmarkUpdate is a put of a random one of a million keys.
func BenchmarkUpdate(b *testing.B) {
	benched(b, benchKeys, func(r *bencher) {
		b.ReportAllocs()
		began := cpu()
		for b.Loop() {
			r.put(r.rng.Uint64N(benchKeys))
		}
		perOp(b, began, b.N)
	})
}

// BenchmarkGet is a get of a random key. A million keys are more than the block cache holds, ten thousand lie in the
// memtable.
func BenchmarkGet(b *testing.B) {
	for _, pick := range []string{"uniform", "zipf", "few"} {
		b.Run(pick, func(b *testing.B) {
			n := benchKeys
			if pick == "few" {
				n = 10_000
			}
			benched(b, n, func(r *bencher) {
				b.ReportAllocs()
				began := cpu()
				for b.Loop() {
					i := r.zipf.Uint64()
					if pick != "zipf" {
						i = r.rng.Uint64N(uint64(n))
					}
					if _, found, err := r.k.Get(r.place(i)); !found {
						b.Fatal("key is gone", err)
					}
				}
				perOp(b, began, b.N)
			})
		})
	}
}

// BenchmarkScan is an element of a scan of a key group.
func BenchmarkScan(b *testing.B) {
	benched(b, benchKeys, func(r *bencher) {
		n, g, began := 0, keygroup.ID(0), cpu()
		b.ResetTimer()
		for n < b.N {
			ok(r.k.Scan(r.state, g, nil, func(_, _ []byte) bool { n++; return n < b.N }))
			g = (g + 1) % benchGroups
		}
		perOp(b, began, b.N)
	})
}

// BenchmarkCheckpoint has, for numbers of updates of a million keys since the last checkpoint, the time of the synchronous
// phase, that of the asynchronous one into a bucket in memory, and the bytes that are put, against those written.
func BenchmarkCheckpoint(b *testing.B) {
	for _, pick := range []string{"uniform", "zipf"} {
		for _, dirty := range []int{0, 1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", pick, dirty), func(b *testing.B) {
				benched(b, benchKeys, func(r *bencher) {
					id := uint64(1)
					ok(r.k.flush(r.ctx))
					ok(r.k.compact(r.ctx)) // what filling left behind is not to be counted
					r.persist(id)
					ok(r.k.Completed(r.ctx, id, 0))
					var sync, async, slowest, syncCPU time.Duration
					var put, most int64
					b.ResetTimer()
					for range b.N {
						for range dirty {
							if pick == "zipf" {
								r.put(r.zipf.Uint64())
							} else {
								r.put(r.rng.Uint64N(benchKeys))
							}
						}
						id++
						began, beganCPU := time.Now(), cpu()
						s, err := r.k.Snapshot(r.ctx, id)
						ok(err)
						took := time.Since(began)
						syncCPU += cpu() - beganCPU
						sync, slowest = sync+took, max(slowest, took)
						began = time.Now()
						p, err := s.Persist(r.ctx)
						ok(err)
						async += time.Since(began)
						put, most = put+p.Checkpointed, max(most, p.Checkpointed)
						s.Release()
						ok(r.k.Completed(r.ctx, id, id-1))
					}
					ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
					b.ReportMetric(ms(sync)/float64(b.N), "sync-ms")
					b.ReportMetric(ms(syncCPU)/float64(b.N), "sync-cpu-ms")
					b.ReportMetric(ms(slowest), "slowest-sync-ms")
					b.ReportMetric(ms(async)/float64(b.N), "async-ms")
					b.ReportMetric(float64(put)/float64(b.N), "put-bytes")
					b.ReportMetric(float64(most), "most-put-bytes")
					b.ReportMetric(float64(dirty*108), "written-bytes")
				})
			})
		}
	}
}

// BenchmarkRestore opens a million keys from a bucket in memory; "half" is one of two subtasks that share the files.
func BenchmarkRestore(b *testing.B) {
	for _, half := range []bool{false, true} {
		b.Run(map[bool]string{false: "whole", true: "half"}[half], func(b *testing.B) {
			benched(b, benchKeys, func(r *bencher) {
				ok(r.k.flush(r.ctx))
				ok(r.k.compact(r.ctx))
				p := r.persist(1)
				rng := keygroup.Range{To: benchGroups}
				if half {
					rng.To /= 2
				}
				var stats backend.RestoreStats
				began := cpu()
				b.ResetTimer()
				for range b.N {
					k, err := r.b.Open(r.worker.Ctx, backend.OpenOptions{
						Operator: "count", Subtask: "count-2", Range: rng, Handles: []backend.StateHandle{p.Handle}, Restored: &stats,
					})
					ok(err)
					ok(k.Close(r.ctx))
				}
				perOp(b, began, b.N)
				b.ReportMetric(float64(stats.BaseBytes), "fetched-bytes")
			})
		})
	}
}

// BenchmarkParts takes apart what the cost model needs: a flush, by bytes, a compaction, opening and closing.
func BenchmarkParts(b *testing.B) {
	for _, dirty := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("flush-%d", dirty), func(b *testing.B) {
			benched(b, 0, func(r *bencher) {
				var took, used time.Duration
				for range b.N {
					for i := range dirty {
						r.put(uint64(i))
					}
					began, beganCPU := time.Now(), cpu()
					ok(r.k.flush(r.ctx))
					took, used = took+time.Since(began), used+cpu()-beganCPU
				}
				b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/flush")
				b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/flush")
				b.ReportMetric(float64(used)/float64(b.N*dirty*108), "cpu-ns/byte")
			})
		})
	}
	b.Run("compact", func(b *testing.B) {
		benched(b, benchKeys, func(r *bencher) {
			var used time.Duration
			var bytes int64
			for range b.N {
				for range benchKeys / 4 {
					r.put(r.rng.Uint64N(benchKeys))
				}
				ok(r.k.flush(r.ctx))
				n, err := r.k.tableBytes()
				ok(err)
				began := cpu()
				ok(r.k.compact(r.ctx))
				used, bytes = used+cpu()-began, bytes+n
			}
			b.ReportMetric(float64(used)/float64(bytes), "cpu-ns/byte")
		})
	})
	// The synchronous phase without the flush, with all files new, and what Pebble has for the purpose.
	for _, how := range []string{"list-and-link", "pebble-checkpoint"} {
		b.Run(how, func(b *testing.B) {
			benched(b, benchKeys, func(r *bencher) {
				ok(r.k.flush(r.ctx))
				ok(r.k.compact(r.ctx))
				began, dir := cpu(), r.b.fs.PathJoin(r.k.dir, "checkpoint")
				for b.Loop() {
					if how == "pebble-checkpoint" {
						ok(r.k.db.Checkpoint(dir))
						ok(r.b.fs.RemoveAll(dir))
						continue
					}
					s, err := r.k.Snapshot(r.ctx, 1)
					ok(err)
					s.Release()
					ok(r.k.Aborted(r.ctx, 1))
				}
				perOp(b, began, b.N)
			})
		})
	}
	b.Run("open", func(b *testing.B) {
		benched(b, 0, func(r *bencher) {
			began := cpu()
			for b.Loop() {
				ok(r.subtask("count-2", keygroup.Range{To: benchGroups}).Close(r.ctx))
			}
			perOp(b, began, b.N)
		})
	})
}
