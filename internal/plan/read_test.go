package plan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func good() Plan {
	record, at := int64(10), Duration(time.Second)
	return Plan{
		Schema: Version, Scenario: "s", Arm: "a", Rep: 1, Seed: 1<<63 + 1, World: "sim", Store: Store{Kind: "mem", Profile: "local"},
		Workers: Workers{Count: 2, Slots: 2, Cores: 1, HeartbeatEvery: Duration(time.Second), HeartbeatTimeout: Duration(3 * time.Second)},
		Job: Job{Parallelism: 3, MaxParallelism: 8, BufferRecords: 1, Credits: 1, FlushEvery: 1,
			Checkpoint: Checkpoint{Interval: Duration(time.Second), Timeout: Duration(time.Second), Retain: 1, MaxConcurrent: 1}},
		Backend:  Backend{Name: "heap"},
		Workload: Workload{Name: "counter", Options: json.RawMessage(`{"keys":5}`), Rate: 100},
		Phases: []Phase{{Name: "run", Records: 100}, {Name: "more", For: Duration(time.Second)},
			{Name: "heal", Until: UntilRecovered, Within: Duration(time.Second)}},
		Faults: []Fault{{ID: "f", Kind: "worker-crash", Phase: "run", Where: "worker/1", At: Trigger{Record: &record}},
			{ID: "g", Kind: "task-error", Phase: "more", Where: "subtask/any", At: Trigger{Event: "worker-up", Count: 1, Since: "f"}}},
		Rescales: []Rescale{{ID: "rescale-1", Phase: "more", At: Trigger{Time: &at}, To: 4, From: "latest"}},
	}
}

func TestPlansReadBackAsTheyWere(t *testing.T) {
	p := good()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	// Options are compared as JSON: Encode indents them.
	var compact bytes.Buffer
	if err := json.Compact(&compact, got.Workload.Options); err != nil {
		t.Fatal(err)
	}
	got.Workload.Options = compact.Bytes()
	if !reflect.DeepEqual(got, p) {
		t.Errorf("got %+v, want %+v", got, p)
	}
}

func TestReadIsStrict(t *testing.T) {
	p := good()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{strings.Replace(string(b), `"arm"`, `"army"`, 1), `unknown field "army"`},
		{strings.Replace(string(b), `"schema": 1`, `"schema": 2`, 1), "schema is 2"},
		{string(b) + "{}", "behind it"},
		{string(b[:len(b)/2]), "unexpected EOF"},
		{`{}`, "scenario has no name"},
		{strings.Replace(string(b), `"1s"`, `1`, 1), "cannot unmarshal number"},
	} {
		if _, err := Read(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestValidateReportsEveryProblem(t *testing.T) {
	p := good()
	far := int64(101)
	p.World = "dream"
	p.Store.Model.Put.P50, p.Store.Model.Put.P99 = 2, 1
	p.Job.Parallelism = 9
	p.Job.Checkpoint.Retain = 0
	p.Backend.Changelog.Enabled = true
	p.Workload.Options = json.RawMessage(`[]`)
	p.Phases[0].For = 1
	p.Phases = append(p.Phases, Phase{Name: "late", Records: 1}, Phase{Name: "end", Until: "bored"})
	p.Faults[0].At.Record = &far
	p.Faults[1].At = Trigger{Event: "worker-up", Count: 0, Since: "nobody"}
	p.Faults[1].ID = "f"
	p.Rescales[0].To, p.Rescales[0].From, p.Rescales[0].Phase = 5, "newest", "heal"
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`world must be real or sim, is "dream"`, "store profile local adds nothing, but there is a model", "store.model.put.p99 1ns is less than its p50 2ns", "parallelism must be 1 to 8, is 9", "parallelism 9 needs more than the 4 slots there are",
		"checkpoint.retain must be 1 to 1000, is 0", "changelog.materialize must be positive", "changelog.batchSize must be positive",
		"workload.options must be an object", "phase run needs exactly one of for, records, until", "phase late stands after closing phase heal",
		`phase end: until "bored" does not exist`, "fault f: record is not inside phase run", `fault "f" has no id of its own`,
		"fault f: count must be at least 1, is 0", `fault f: since "nobody" is neither phase, run nor a fault`,
		"rescale rescale-1: to must be 1 to 4, is 5", `rescale rescale-1: from must be latest or previous, is "newest"`,
		"rescale rescale-1 stands in closing phase heal",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in\n%v", want, err)
		}
	}
}

// TestNamesStayInsideTheResults checks that a plan edited by hand neither writes elsewhere nor fills the memory.
func TestNamesStayInsideTheResults(t *testing.T) {
	for want, edit := range map[string]func(*Plan){
		`scenario "../x" must be the name of a folder`: func(p *Plan) { p.Scenario = "../x" },
		`arm ".." must be the name of a folder`:        func(p *Plan) { p.Arm = ".." },
		"workers.count must be 1 to 1000":              func(p *Plan) { p.Workers.Count = 1 << 40 },
	} {
		p := good()
		edit(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestOneLogStorageARun: a job that is started in another arm finds its checkpoints where its own log lies.
func TestOneLogStorageARun(t *testing.T) {
	for _, c := range []struct {
		begin, then Changelog
		want        string // storage, or an error
	}{
		{Changelog{Enabled: true}, Changelog{Enabled: true, Storage: LogDFS}, LogDFS},
		{Changelog{Storage: LogMemory}, Changelog{Enabled: true, Storage: LogFile}, LogFile},
		{Changelog{Enabled: true, Storage: LogFile}, Changelog{}, LogFile},
		{Changelog{Enabled: true, Storage: LogFile}, Changelog{Enabled: true}, "changelog.storage is file and, in an arm that the job is started in, dfs"},
		{Changelog{Enabled: true, Storage: "tape"}, Changelog{}, `changelog.storage "tape" does not exist`},
	} {
		p := good()
		p.Backend.Changelog = c.begin
		p.Phases[0].Steps = []Step{{Start: &Start{Arm: "other", Backend: &Backend{Name: "heap", Changelog: c.then}}}}
		got := p.LogStorage()
		if err := p.Validate(); err != nil && strings.Contains(err.Error(), "changelog.storage") {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v, then %+v: %s, want %s", c.begin, c.then, got, c.want)
		}
	}
}
