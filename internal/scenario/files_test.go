package scenario

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"statebench.dev/bench/faults"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/workloads"
)

// realTables hold the workloads and faults that the shipped scenarios use.
func realTables() Tables {
	workload := func(k workloads.Kind, scheduled bool, sim map[string]string) WorkloadInfo {
		return WorkloadInfo{Options: OptionsOf(k.Options), Resolve: k.Resolve, Inputs: k.Inputs, Schemas: k.Schemas, Scheduled: scheduled, Sim: sim}
	}
	crash := FaultInfo{Crash: true, Options: []Option{{Name: "disk", Kind: "text"}}, Check: func(where string, with json.RawMessage) error {
		_, err := faults.NewWorkerCrash(faults.Spec{ID: "check", Where: where, With: with})
		return err
	}}
	t := testTables()
	t.Backends = []string{"heap", "lsm"}
	known := []registry.Entry[FaultInfo]{{Name: "worker-crash", New: crash}}
	for _, name := range []string{"container-kill", "container-pause", "container-restart", "container-stop"} {
		known = append(known, registry.Entry[FaultInfo]{Name: name, New: FaultInfo{Container: true, Check: func(string, json.RawMessage) error { return nil }}})
	}
	t.Faults = registry.NewTable("fault", known...)
	var figures []registry.Entry[MetricInfo]
	for _, m := range metrics.All() {
		figures = append(figures, registry.Entry[MetricInfo]{Name: m.Name, New: MetricInfo{Bound: m.Bound, Samples: string(m.Samples), Need: m.Need, Measured: m.Measured, Capacity: m.Capacity}})
	}
	t.Metrics = registry.NewTable("metric", figures...)
	t.Workloads = registry.NewTable("workload",
		registry.Entry[WorkloadInfo]{Name: "counter", New: workload(workloads.Counter(), false, map[string]string{"keys": "keys.count", "sizes": "values.size"})},
		registry.Entry[WorkloadInfo]{Name: "enrich", New: workload(workloads.Enrich(), false, map[string]string{"keys": "keys.count", "sizes": "values.size"})},
		registry.Entry[WorkloadInfo]{Name: "window", New: workload(workloads.Window(), false, map[string]string{"keys": "keys.count", "sizes": "values.size"})},
		registry.Entry[WorkloadInfo]{Name: "trace", New: workload(workloads.Trace(), true, map[string]string{"speed": "speed", "duration": "duration"})})
	return t
}

// accepted are the warnings that a shipped scenario means to have: peer-value has a single worker, as what it is compared with
// had, and kills it at events that one arm only has, in phases of their own; its steady phase is compared.
var accepted = map[string]string{"peer-value": `^fault kill-\S+ leaves 0 slots on 0 workers .* until it is back$|^phase crash-(late|early) is reported but not compared: fault kill-\S+ is for some arms only$`}

// TestShippedScenariosMakeTheirPlans also holds them to having no other warning: they are examples.
func TestShippedScenariosMakeTheirPlans(t *testing.T) {
	for _, file := range files(t, "../../scenarios/*.yaml") {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			for _, world := range []string{"real", "sim"} {
				o := Overrides{World: world}
				if world == "sim" && strings.Contains(string(mustRead(t, file)), "fault: container-") {
					if _, problems := Load(file, mustRead(t, file), realTables(), o); len(problems) == 0 {
						t.Error("it has faults of a container and can be simulated")
					}
					continue
				}
				checkGood(t, file, filepath.Join("testdata/shipped", name+"."+world), realTables(), o)
				s, _ := load(t, file, realTables(), o)
				for _, w := range s.Warnings {
					if re := accepted[name]; re == "" || !regexp.MustCompile(re).MatchString(w.Message) {
						t.Errorf("%s:\n%s", world, Format([]Problem{w}))
					}
				}
			}
		})
	}
}

// TestDocumentationNamesEveryKey keeps docs/scenario.md complete and its example good.
func TestDocumentationNamesEveryKey(t *testing.T) {
	doc := string(mustRead(t, "../../docs/scenario.md"))
	_, example, ok := strings.Cut(doc, "```yaml\n")
	example, _, closed := strings.Cut(example, "```")
	if !ok || !closed {
		t.Fatal("no example")
	}
	loadSource(t, "example.yaml", []byte(example), realTables(), Overrides{})
	for _, path := range append(nested(), "", "phases", "phases.heal", "phases.drain", "phases.verify", "profile.file", "prices.file", "prices", "expect.statement") {
		for _, key := range names(block(path)) {
			if named := regexp.MustCompile("[`.{ ]" + key + "[`.:]"); !named.MatchString(doc) {
				t.Errorf("docs/scenario.md does not name the key %s of block %q", key, path)
			}
		}
	}
}
