package scenario

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"statebench.dev/bench/internal/plan"
)

// load loads a file that must be good.
func load(t *testing.T, file string, tables Tables, o Overrides) (*Scenario, []plan.Plan) {
	t.Helper()
	return loadSource(t, file, mustRead(t, file), tables, o)
}

func loadSource(t *testing.T, file string, src []byte, tables Tables, o Overrides) (*Scenario, []plan.Plan) {
	t.Helper()
	s, problems := Load(file, src, tables, o)
	if len(problems) > 0 {
		t.Fatalf("%s:\n%s", file, Format(problems))
	}
	plans, err := Plans(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, plans
}

// encode writes plans one after the other.
func encode(t *testing.T, plans []plan.Plan) []byte {
	t.Helper()
	var all []byte
	for _, p := range plans {
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := plan.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("the plan does not read back: %v", err)
		}
		if back, err := again.Encode(); err != nil || !bytes.Equal(b, back) {
			t.Errorf("the plan changes when it is read back: %v", err)
		}
		all = append(all, b...)
	}
	return all
}

// checkGood compares everything that is made of a good scenario with golden files of the given name.
func checkGood(t *testing.T, file, goldenName string, tables Tables, o Overrides) {
	t.Helper()
	s, plans := load(t, file, tables, o)
	encoded, resolved := encode(t, plans), Resolved(s)
	golden(t, goldenName+".plans.json", encoded)
	golden(t, goldenName+".resolved.txt", resolved)
	golden(t, goldenName+".explain.txt", []byte(Explain(s, plans)))

	// What was resolved is a scenario too, with the same plans.
	again, problems := Load(file, resolved, tables, Overrides{World: o.World, Store: o.Store, Arms: o.Arms, Reps: o.Reps})
	if len(problems) > 0 {
		t.Fatalf("the resolved scenario does not load:\n%s", Format(problems))
	}
	plans, err := Plans(again)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, plans); !bytes.Equal(got, encoded) {
		t.Errorf("the resolved scenario has other plans:\n%s\nwant\n%s", got, encoded)
	}
}

func TestGoodScenariosMakeTheirPlans(t *testing.T) {
	seed := uint64(99)
	for _, file := range files(t, "testdata/good/*.yaml") {
		name := strings.TrimSuffix(file, ".yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			checkGood(t, file, name, testTables(), Overrides{Drawn: 5})
			checkGood(t, file, name+".sim", testTables(), Overrides{World: "sim", Seed: &seed})
		})
	}
}

func TestArmsAndRepetitionsAreSelected(t *testing.T) {
	_, plans := load(t, "testdata/good/full.yaml", testTables(), Overrides{Drawn: 5, Reps: 2, Arms: []string{"slow", "off"}, Store: "dir:/data"})
	var got []string
	for _, p := range plans {
		got = append(got, p.Arm)
		if p.Store.Kind != "dir:/data" {
			t.Errorf("store %q", p.Store.Kind)
		}
		if p.Baseline {
			t.Errorf("arm %s is the baseline, which was not selected", p.Arm)
		}
	}
	if want := []string{"off", "slow", "off", "slow"}; !slices.Equal(got, want) {
		t.Fatalf("arms %v, want %v", got, want)
	}
	if plans[0].Seed != 5 || plans[1].Seed != 5 || plans[2].Seed == 5 || plans[2].Seed != plans[3].Seed || plans[3].Rep != 2 {
		t.Errorf("seeds %d %d %d %d", plans[0].Seed, plans[1].Seed, plans[2].Seed, plans[3].Seed)
	}
}

func TestWrongFlagsAreReportedWithTheirNames(t *testing.T) {
	for _, c := range []struct {
		o    Overrides
		want string
	}{
		{Overrides{World: "dream"}, `--world  world must be real or sim, is "dream"; did you mean "real"?`},
		{Overrides{World: "sim", Store: "embedded"}, `--store  the simulated world takes store mem only, not "embedded"`},
		{Overrides{Store: "dir"}, "--store  dir needs a folder: dir:PATH"},
		{Overrides{Store: "s3://bucket/x"}, "--store  s3 needs an address: s3://BUCKET/PREFIX?endpoint=URL"},
		{Overrides{Store: "mem:x"}, `--store  mem takes nothing behind it, is "mem:x"`},
		{Overrides{Profile: "s3-standart"}, `--profile  profile must be local, s3-standard or a file such as mine.yaml, is "s3-standart"; did you mean "s3-standard"?`},
		{Overrides{Profile: "testdata/none.yaml"}, "--profile  profile cannot be read: open testdata/none.yaml: no such file or directory"},
		{Overrides{Arms: []string{"of"}}, `--arm  arm "of" does not exist; did you mean "off"?`},
		{Overrides{Reps: -1}, "--reps  must be at least 1, is -1"},
		{Overrides{Reps: 99_999_999_999}, "--reps  must be at most 10,000, is 99,999,999,999"},
	} {
		_, problems := Load("testdata/good/full.yaml", mustRead(t, "testdata/good/full.yaml"), testTables(), c.o)
		if len(problems) != 1 || problems[0].Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.o, problems, c.want)
		}
	}
}

func TestProfileFlagTakesNamesAndFiles(t *testing.T) {
	for flag, want := range map[string]string{"local": "local", "s3-standard": "s3-standard", "testdata/good/slow-disk.json": "slow-disk"} {
		s, plans := load(t, "testdata/good/standard.yaml", testTables(), Overrides{Profile: flag})
		p := plans[0].Store
		if p.Profile != want || p.Model.Zero() != (want == "local") || s.Origin("env.store.profile") != "flag --profile" {
			t.Errorf("%s: %+v from %s", flag, p, s.Origin("env.store.profile"))
		}
	}
}

// TestProfilesAreWrittenAsTheyAreRead also holds a file to its name: results carry it alone.
func TestProfilesAreWrittenAsTheyAreRead(t *testing.T) {
	want := Shipped()
	if name, got, problems := ReadProfile("x.yaml", FormatProfile("s3-standard", want)); len(problems) > 0 || name != "s3-standard" || got != want {
		t.Errorf("%s %+v, want %+v\n%s", name, got, want, Format(problems))
	}
	want.Put.P50++
	want.About = "Other figures."
	if _, _, problems := ReadProfile("x.yaml", FormatProfile("s3-standard", want)); len(problems) != 1 || problems[0].Place.Line != 3 {
		t.Errorf("other figures under the shipped name: %v", problems)
	}
	if _, got, problems := ReadProfile("x.yaml", FormatProfile("mine", want)); len(problems) > 0 || got != want {
		t.Errorf("%+v, want %+v\n%s", got, want, Format(problems))
	}
}

func TestSimulatedWorldTakesStoreMem(t *testing.T) {
	s, plans := load(t, "testdata/good/trace.yaml", testTables(), Overrides{})
	if plans[0].Store.Kind != "mem" || len(s.Notes) != 1 || s.Notes[0] != "the simulated world uses store mem instead of embedded" {
		t.Errorf("store %q, notes %q", plans[0].Store.Kind, s.Notes)
	}
}

func TestWarningsStopNothing(t *testing.T) {
	src := string(mustRead(t, "testdata/good/full.yaml"))
	src = strings.Replace(src, "slow: {changelog: {<<: *log,", "slow: {changelog: {<<: *log, inFlight: 50MiB,", 1)
	src = strings.Replace(src, "workers: {count: 3, slots: 3", "workers: {count: 2, slots: 4", 1)
	s, _ := loadSource(t, "testdata/good/full.yaml", []byte(src), testTables(), Overrides{})
	var got strings.Builder
	for _, w := range s.Warnings {
		got.WriteString(w.String() + "\n")
	}
	golden(t, "testdata/good/warnings.txt", []byte(got.String()))
}

func TestInputOutsideTheFolderNeedsPermission(t *testing.T) {
	src := bytes.Replace(mustRead(t, "testdata/good/trace.yaml"), []byte("tiny.csv"), []byte("../broken/tiny.csv"), 1)
	const file = "testdata/good/trace.yaml"
	if _, problems := Load(file, src, testTables(), Overrides{}); len(problems) != 1 || !strings.Contains(problems[0].Message, "--allow-path") {
		t.Errorf("problems %v", problems)
	}
	_, plans := loadSource(t, file, src, testTables(), Overrides{AllowPath: true})
	in := plans[0].Inputs[0]
	if in.Path != "../broken/tiny.csv" || in.File != filepath.FromSlash("testdata/broken/tiny.csv") || in.Bytes != 6 || len(in.SHA256) != 64 {
		t.Errorf("input %+v", in)
	}
}

func TestAliasesThatNeverEndAreRefused(t *testing.T) {
	base := "apiVersion: bench/v1\nkind: Scenario\nname: x\narms: {a: {backend: heap}}\nphases: [{name: run, records: 5}]\n"
	bomb := "x-a: &a [z, z, z, z, z, z, z, z]\n"
	for _, c := range "bcdefgh" {
		bomb += "x-" + string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+", ", 8), ", ") + "]\n"
	}
	for name, src := range map[string]string{
		"loop": base + "workload: &w {name: open, inner: {again: *w}}\n",
		"bomb": bomb + base + "workload: {name: open, big: *h}\n",
	} {
		tables := testTables()
		tables.Workloads = openWorkload()
		s, problems := Load(name+".yaml", []byte(src), tables, Overrides{})
		if s != nil || len(problems) == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestSetFlagsKeepTheTypes also holds messages to naming both ends of a value.
func TestSetFlagsKeepTheTypes(t *testing.T) {
	const file = "testdata/good/params.yaml"
	s, plans := loadSource(t, file, mustRead(t, file), testTables(), Overrides{Set: []string{"keys=5_000", "interval=2s", "op=get"}})
	if plans[0].Phases[0].Records != 50_000 || plan.D(plans[0].Job.Checkpoint.Interval).Seconds() != 2 || plans[0].Faults[0].ID != "slow-get" {
		t.Errorf("plan %+v %+v", plans[0].Phases[0], plans[0].Job.Checkpoint)
	}
	if from := s.Origin("job.checkpoint.interval"); from != file+":18, ${interval} of flag --set" {
		t.Errorf("origin %s", from)
	}
	for set, want := range map[string]string{
		"keys=many":  `--set  keys is a number (2_000, given at testdata/good/params.yaml:8:9), "many" is text`,
		"interval=5": `--set  interval is a duration (500ms, given at testdata/good/params.yaml:10:13), "5" is a number`,
		"on=yes":     `--set  on is true or false (true, given at testdata/good/params.yaml:11:7), "yes" is text`,
		"key=5":      `--set  parameter "key" does not exist; did you mean "keys"?`,
		"keys":       `--set  must be name=value, is "keys"`,
		"keys=[1]":   `--set  the value of keys must be a single value, is "[1]"`,
		"keys=7":     `testdata/good/params.yaml:29:17  keys.count is 7, must be at least 8 (value of ${keys}, given by --set)`,
	} {
		_, problems := Load(file, mustRead(t, file), testTables(), Overrides{Set: []string{set}})
		if len(problems) == 0 || problems[0].Error() != want {
			t.Errorf("--set %s: %v, want %s", set, problems, want)
		}
	}
}
