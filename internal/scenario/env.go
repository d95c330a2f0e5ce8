package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/registry"
)

// defaults is a scenario in which every setting has the value it takes when neither file nor flag gives one.
func defaults(path string) *Scenario {
	ms := func(n int) plan.Duration { return plan.Duration(time.Duration(n) * time.Millisecond) }
	return &Scenario{
		Path: path, World: "real",
		Store:   plan.Store{Kind: "embedded", Profile: "local"},
		Workers: plan.Workers{Count: 4, Slots: 2, Cores: 2, HeartbeatEvery: ms(1_000), HeartbeatTimeout: ms(5_000)},
		Job: plan.Job{
			Parallelism: 4, MaxParallelism: 128,
			Checkpoint:   plan.Checkpoint{Interval: ms(1_000), Timeout: ms(30_000), Retain: 3, MaxConcurrent: 1},
			RestartDelay: ms(100), Restart: plan.Restart{Strategy: plan.RestartFixed}, BufferRecords: 512, Credits: 4, FlushEvery: ms(10),
		},
		Outer: Outer{LSM: lsmDefaults(), LocalCopies: 4 << 30, Changelog: plan.Changelog{
			Materialize: ms(20_000), Growth: 1, GrowthFloor: 1 << 20, ReplayBudget: ms(2_000),
			Preemptive: 4 << 20, BatchDelay: ms(10), BatchSize: 10 << 20, InFlight: 100 << 20,
			Upload: plan.Upload{RetryShare: 0.2, RetriesPerSecond: 5, HedgeShare: 0.05},
		}},
	}
}

// maxMax is the largest maximum parallelism: key groups are numbered in 16 bits, as in Flink.
const maxMax = plan.MaxParallelism

// maxSpread is the most prefixes that keys are spread over.
const maxSpread = plan.MaxSpread

// maxWorkers is the most workers, slots and cores.
const maxWorkers = plan.MaxWorkers

// env reads where the run takes place.
func (l *loader) env(root object, s *Scenario) {
	var env object
	if f, ok := root.find("env"); ok {
		env, _ = l.object(f.value, "env", "env", "env")
	}
	env.l = l
	read(env, "world", &s.World, word)
	if l.over.World != "" {
		if err := checkWord("world", l.over.World, []string{"real", "sim"}, nil); err != nil {
			l.flag("--world", "%s", err)
		}
		s.World, l.origins["env.world"] = l.over.World, "flag --world"
	}
	l.store(env, s)
	if f, ok := env.find("workers"); ok {
		if o, ok := l.object(f.value, "env.workers", "env.workers", "env.workers"); ok {
			l.workers(o, s)
		}
	}
}

func (l *loader) workers(o object, s *Scenario) {
	read(o, "count", &s.Workers.Count, inRange)
	read(o, "slots", &s.Workers.Slots, inRange)
	read(o, "cores", &s.Workers.Cores, inRange)
	f, ok := o.find("heartbeat")
	if !ok {
		return
	}
	h, ok := l.object(f.value, f.path, "env.workers.heartbeat", "heartbeat")
	if !ok {
		return
	}
	read(h, "every", &s.Workers.HeartbeatEvery, positiveDuration)
	read(h, "timeout", &s.Workers.HeartbeatTimeout, positiveDuration)
	if s.Workers.HeartbeatTimeout <= s.Workers.HeartbeatEvery {
		l.fail(h.at, "heartbeat timeout %s must be longer than every %s", s.Workers.HeartbeatTimeout, s.Workers.HeartbeatEvery)
	}
}

// storeKinds are the words of env.store.kind.
func storeKinds() []string { return []string{"mem", "dir", "embedded", "minio", "s3"} }

// store reads which object store the run uses.
func (l *loader) store(env object, s *Scenario) {
	var kindAt Place
	if f, ok := env.find("store"); ok {
		if o, ok := l.object(f.value, "env.store", "env.store", "env.store"); ok {
			if read(o, "kind", &s.Store.Kind, word) {
				kindAt = l.places["env.store.kind"]
			}
			read(o, "spread", &s.Store.Spread, inRange)
			l.profile(o, s)
			l.prices(o, s)
			l.container(o, s)
		}
	}
	wanted := s.Store.Kind
	l.profileFlag(s)
	l.pricesFlag(s)
	l.storeFlag(s)
	l.onlyForMinIO(s, wanted)
	switch {
	case s.World == "sim" && l.over.Store != "" && l.over.Store != "mem":
		l.flag("--store", "the simulated world takes store mem only, not %q", l.over.Store)
	case s.World == "sim" && s.Store.Kind != "mem":
		if kindAt.Line > 0 {
			s.Notes = append(s.Notes, "the simulated world uses store mem instead of "+s.Store.Kind)
		}
		s.Store.Kind, l.origins["env.store.kind"] = "mem", "simulated world"
	case s.Store.Kind == "dir" && l.over.Store == "":
		l.fail(kindAt, "store dir needs a folder, which the command line gives: --store dir:PATH")
	case s.Store.Kind == "s3" && l.over.Store == "":
		l.fail(kindAt, "store s3 needs an address, which the command line gives: --store 's3://BUCKET/PREFIX?endpoint=URL'")
	}
}

// container reads what goes with the container of store minio.
func (l *loader) container(o object, s *Scenario) {
	read(o, "image", &s.Store.Image, image)
	var proxy string
	read(o, "proxy", &proxy, word)
	if f, ok := o.find("limits"); ok {
		if limits, ok := l.object(f.value, f.path, "env.store.limits", "limits"); ok {
			read(limits, "cpus", &s.Store.Limits.CPUs, numberFrom(0.1, plan.MaxCPUs))
			if read(limits, "memory", &s.Store.Limits.Memory, positiveBytes) && s.Store.Limits.Memory < plan.MinMemory {
				l.fail(l.places[f.path+".memory"], "memory must be at least %s, is %s: MinIO does not start in less",
					registry.Bytes(plan.MinMemory), registry.Bytes(s.Store.Limits.Memory))
			}
		}
	}
}

// onlyForMinIO refuses what goes with the container where neither the file nor the command line asks for one, and leaves it
// out where the command line asks for another store.
func (l *loader) onlyForMinIO(s *Scenario, wanted string) {
	if s.Store.Kind == "minio" && s.World != "sim" {
		return
	}
	s.Store.Image, s.Store.Limits = "", plan.Limits{}
	if wanted == "minio" {
		return
	}
	for _, key := range []string{"image", "limits", "proxy"} {
		if at, ok := l.places["env.store."+key]; ok {
			l.fail(at, "%s goes with store minio, this is store %s", key, wanted)
		}
	}
}

// image reads the name of an image, with its digest or without.
func image(l *loader, f field) (string, error) {
	s, err := text(l, f)
	if err != nil {
		return "", err
	}
	_, digest, has := strings.Cut(s, "@")
	if hexa, ok := strings.CutPrefix(digest, "sha256:"); has && (!ok || len(hexa) != 64 || strings.Trim(hexa, "0123456789abcdef") != "") {
		return "", fmt.Errorf("image %q must be like name or name@sha256:<64 hexadecimal digits>", s)
	}
	if strings.ContainsAny(s, " \t\n") || s == "" || strings.HasPrefix(s, "@") {
		return "", fmt.Errorf("image %q must be like name or name@sha256:<64 hexadecimal digits>", s)
	}
	return s, nil
}

// storeFlag applies --store.
func (l *loader) storeFlag(s *Scenario) {
	v := l.over.Store
	if v == "" {
		return
	}
	kind, folder, _ := strings.Cut(v, ":")
	if err := checkWord("store", kind, storeKinds(), nil); err != nil {
		l.flag("--store", "%s", err)
		return
	}
	switch {
	case kind == "dir" && folder == "":
		l.flag("--store", "dir needs a folder: dir:PATH")
	case kind == "s3" && (!strings.HasPrefix(folder, "//") || !strings.Contains(folder, "endpoint=")):
		l.flag("--store", "s3 needs an address: s3://BUCKET/PREFIX?endpoint=URL")
	case kind != "dir" && kind != "s3" && folder != "":
		l.flag("--store", "%s takes nothing behind it, is %q", kind, v)
	}
	s.Store.Kind, l.origins["env.store.kind"] = v, "flag --store"
}

// job reads the engine's settings and the outer level of the backend.
func (l *loader) job(root object, s *Scenario) {
	f, ok := root.find("job")
	if !ok {
		return
	}
	o, ok := l.object(f.value, "job", "job", "job")
	if !ok {
		return
	}
	read(o, "maxParallelism", &s.Job.MaxParallelism, inRange)
	read(o, "parallelism", &s.Job.Parallelism, whole(1, s.Job.MaxParallelism))
	l.restart(o, &s.Job)
	read(o, "bufferRecords", &s.Job.BufferRecords, inRange)
	read(o, "credits", &s.Job.Credits, inRange)
	read(o, "flushEvery", &s.Job.FlushEvery, positiveDuration)
	read(o, "backend", &s.Outer.Backend, l.backendName())
	if c, ok := o.find("changelog"); ok {
		l.changelog(c, "job", &s.Outer.Changelog)
	}
	l.lsm(o, "job", &s.Outer.LSM)
	read(o, "localRecovery", &s.Outer.LocalRecovery, truth)
	read(o, "localCopies", &s.Outer.LocalCopies, positiveBytes)
	if c, ok := o.find("checkpoint"); ok {
		l.checkpoint(c, &s.Job.Checkpoint)
	}
}

func (l *loader) checkpoint(f field, c *plan.Checkpoint) {
	o, ok := l.object(f.value, f.path, "job.checkpoint", "checkpoint")
	if !ok {
		return
	}
	read(o, "interval", &c.Interval, positiveDuration)
	read(o, "timeout", &c.Timeout, positiveDuration)
	read(o, "minPause", &c.MinPause, duration)
	read(o, "retain", &c.Retain, inRange)
	read(o, "maxConcurrent", &c.MaxConcurrent, inRange)
	var failures int
	if read(o, "tolerableFailures", &failures, inRange) {
		c.TolerableFailures = &failures
	}
	read(o, "deletesPerSecond", &c.DeletesPerSecond, inRange)
	var semantics string
	read(o, "semantics", &semantics, oneOf([]string{"exactly-once"}, []string{"at-least-once"}))
	if c.MinPause > 0 && c.MaxConcurrent > 1 {
		l.fail(l.places[o.path+".maxConcurrent"], "maxConcurrent must be 1 when there is a minPause, is %d", c.MaxConcurrent)
	}
}

// backendName reads the name of a backend.
func (l *loader) backendName() func(*loader, field) (string, error) {
	return func(l *loader, f field) (string, error) {
		s, err := text(l, f)
		if err == nil && s == "lsm" && !slices.Contains(l.tables.Backends, s) {
			return s, checkWord(f.key, s, l.tables.Backends, []string{"lsm"})
		}
		if err != nil {
			return s, err
		}
		return known("backend", l.tables.Backends)(l, f)
	}
}

// changelog reads a changelog block on top of the outer level's values. owner is what messages call its owner.
func (l *loader) changelog(f field, owner string, c *plan.Changelog) {
	o, ok := l.object(f.value, f.path, "changelog", "changelog of "+owner)
	if !ok {
		return
	}
	before := len(l.problems)
	read(o, "enabled", &c.Enabled, truth)
	read(o, "preemptive", &c.Preemptive, positiveBytes)
	read(o, "inFlight", &c.InFlight, positiveBytes)
	if read(o, "storage", &c.Storage, oneOf(plan.LogStorages(), nil)) && c.Storage == plan.LogDFS {
		c.Storage = "" // as plans write it
	}
	if m, ok := o.find("materialize"); ok {
		if m, ok := l.object(m.value, m.path, "changelog.materialize", "materialize"); ok {
			on := !c.MaterializeOff
			read(m, "enabled", &on, truth)
			c.MaterializeOff = !on
			read(m, "every", &c.Materialize, positiveDuration)
			var growth registry.Share
			if read(m, "growth", &growth, orOff(share)) {
				c.Growth = float64(growth)
			}
			read(m, "growthFloor", &c.GrowthFloor, bytesOrNone)
			read(m, "replayBudget", &c.ReplayBudget, orOff(duration))
			read(m, "concurrent", &c.Concurrent, inRange)
			read(m, "concurrentJob", &c.ConcurrentJob, inRange)
		}
	}
	if b, ok := o.find("batch"); ok {
		if b, ok := l.object(b.value, b.path, "changelog.batch", "batch"); ok {
			read(b, "delay", &c.BatchDelay, duration)
			read(b, "size", &c.BatchSize, positiveBytes)
		}
	}
	if u, ok := o.find("upload"); ok {
		if u, ok := l.object(u.value, u.path, "changelog.upload", "upload"); ok {
			l.upload(u, &c.Upload)
		}
	}
	if len(l.problems) == before && c.InFlight < c.Preemptive {
		l.fail(o.at, "inFlight %s must not be less than preemptive %s", registry.Bytes(c.InFlight), registry.Bytes(c.Preemptive))
	}
}

// upload reads how uploads of the log are tried again, and when by a second attempt.
func (l *loader) upload(o object, u *plan.Upload) {
	var part registry.Share
	if read(o, "retryShare", &part, positiveShare) {
		u.RetryShare = float64(part)
	}
	read(o, "retriesPerSecond", &u.RetriesPerSecond, inRange)
	read(o, "hedgeAfter", &u.HedgeAfter, positiveDuration)
	if read(o, "hedgeShare", &part, positiveShare) {
		u.HedgeShare = float64(part)
	}
}

// arms reads the variants and the baseline.
func (l *loader) arms(root object, s *Scenario) {
	f, ok := root.find("arms")
	if !ok {
		return
	}
	if !isMapping(f.value) {
		l.fail(f.where, "arms must be a mapping from names to settings, is %s", kindOf(f.value))
		return
	}
	for _, a := range l.entries(f.value, "arms", "arms") {
		if err := checkName("arm", a.key); err != nil {
			l.fail(a.at, "%s", err)
			continue
		}
		arm := Arm{Name: a.key, place: a.at, Backend: plan.Backend{Name: s.Outer.Backend, Changelog: s.Outer.Changelog, LSM: s.Outer.LSM,
			LocalRecovery: s.Outer.LocalRecovery, LocalCopies: s.Outer.LocalCopies}}
		if o, ok := l.object(a.value, a.path, "arm", "arm "+a.key); ok {
			read(o, "backend", &arm.Backend.Name, l.backendName())
			if c, ok := o.find("changelog"); ok {
				l.changelog(c, "arm "+a.key, &arm.Backend.Changelog)
			}
			l.armLSM(o, &arm)
			read(o, "localRecovery", &arm.Backend.LocalRecovery, truth)
			read(o, "localCopies", &arm.Backend.LocalCopies, positiveBytes)
			if !arm.Backend.LocalRecovery {
				arm.Backend.LocalCopies = 0 // it says nothing then
			}
			if w, ok := o.find("workload"); ok {
				arm.block = w
			}
			if arm.Backend.Name == "" && !l.tried(a.path+".backend") && !l.tried("job.backend") {
				l.fail(a.at, "arm %s has no backend; there are %s", a.key, strings.Join(l.tables.Backends, ", "))
			}
		}
		s.Arms = append(s.Arms, arm)
	}
	if len(s.Arms) == 0 {
		l.fail(f.where, "arms is empty; name at least one")
		return
	}
	l.baseline(root, s)
}

func (s *Scenario) armNames() []string {
	var names []string
	for _, a := range s.Arms {
		names = append(names, a.Name)
	}
	return names
}

// baseline reads which arm the others are compared with, and which arms --arm selects.
func (l *loader) baseline(root object, s *Scenario) {
	names := s.armNames()
	switch {
	case root.has("baseline"):
		read(root, "baseline", &s.Baseline, func(l *loader, f field) (string, error) {
			if word, err := text(l, f); err == nil && l.tried("arms."+word) {
				return word, nil // an arm that could not be read exists all the same
			}
			return known("arm", names)(l, f)
		})
	case len(names) == 1:
		s.Baseline = names[0]
	case !l.tried("baseline"):
		l.fail(l.places["arms"], "the scenario has several arms and no baseline; name one of %s", strings.Join(names, ", "))
	}
	s.Selected = names
	if len(l.over.Arms) == 0 {
		return
	}
	for _, a := range l.over.Arms {
		if !slices.Contains(names, a) {
			l.flag("--arm", "%s", &registry.UnknownError{What: "arm", Name: a, Nearest: registry.Nearest(a, names)})
		}
	}
	s.Selected = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(l.over.Arms, n) })
}
