package report

import (
	"bytes"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"statebench.dev/bench/internal/history"
	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

var update = flag.Bool("update", false, "make the stored run and the golden files again")

// stored runs of testdata: arms side by side, and a simulated one that violates an invariant.
func storedRuns() map[string]made {
	return map[string]made{
		"real": {arms: []string{"changelog-off", "changelog-on"}, reps: 1,
			expect: []string{"checkpoint.late.p50", "< 500ms", "recoveryPointAge.p99w", "< 2s", "throughput", ">= 39_200/s", "checkpoints.aborted", "== 0"}},
		"sim": {arms: []string{"changelog-off", "changelog-on"}, reps: 1, sim: true, tiny: true, fail: true},
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// load loads a stored run of testdata, which -update makes first.
func load(t *testing.T, name string) *Invocation {
	t.Helper()
	dir := results.Dir(filepath.Join("testdata", name))
	if *update {
		must(t, os.RemoveAll(string(dir)))
		storedRuns()[name].write(t, dir)
	}
	inv, err := Load(dir)
	must(t, err)
	return inv
}

// fresh makes and loads an invocation.
func fresh(t *testing.T, m made) *Invocation {
	t.Helper()
	dir := results.Dir(filepath.Join(t.TempDir(), "made-up"))
	m.write(t, dir)
	inv, err := Load(dir)
	must(t, err)
	return inv
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, results.WriteFile(path, got))
		return
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		for i, line := range strings.Split(string(got), "\n") {
			w := strings.Split(string(want), "\n")
			if i >= len(w) || line != w[i] {
				t.Fatalf("%s line %d\n got  %s\n want %s\nnew golden files: go test ./report -update", name, i+1, line, append(w, "(end)")[min(i, len(w))])
			}
		}
		t.Fatalf("%s is cut", name)
	}
}

func TestRenderedAsStored(t *testing.T) {
	for name := range storedRuns() {
		t.Run(name, func(t *testing.T) {
			inv := load(t, name)
			golden(t, name+".txt", []byte(Terminal(inv)))
			golden(t, name+".md", []byte(summary(inv)))
			golden(t, name+".bench.txt", []byte(benchText(inv)))
			pictures, err := inv.draw()
			must(t, err)
			for _, p := range pictures {
				golden(t, name+"-"+p.name+".svg", p.svg)
			}
			html, err := page(inv, pictures)
			must(t, err)
			golden(t, name+".html", regexp.MustCompile(`(?s)<svg.*?</svg>`).ReplaceAll(html, []byte("<svg/>")))
		})
	}
}

func TestWriteLeavesWholeFilesAndTheSameOnesAgain(t *testing.T) {
	inv := fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 2})
	var before []byte
	for range 2 {
		must(t, Write(inv))
		html, err := os.ReadFile(inv.Dir.Path(results.ReportFile))
		must(t, err)
		if before != nil && !bytes.Equal(before, html) {
			t.Error("the same files gave another page")
		}
		before = html
	}
	for _, c := range Charts() {
		b, err := os.ReadFile(inv.Dir.Path(results.PlotsDir, c+".png"))
		must(t, err)
		if img, err := png.Decode(bytes.NewReader(b)); err != nil || img.Bounds().Dx() != 1440 {
			t.Errorf("%s: %v, %v", c, err, img.Bounds())
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	inv := load(t, "sim")
	pictures, err := inv.draw()
	must(t, err)
	html, err := page(inv, pictures)
	must(t, err)
	if m := regexp.MustCompile(`(?i)<script|src=|@import|url\(|href="https?:`).Find(html); m != nil {
		t.Errorf("the page has %q", m)
	}
	if !strings.Contains(string(html), `class="band"`) {
		t.Error("a page of simulated runs has no band")
	}
	for _, p := range pictures {
		if !strings.Contains(string(p.svg), "simulated") {
			t.Errorf("%s is not marked as simulated", p.name)
		}
	}
}

func TestSimulatedFiguresCarryTheirMark(t *testing.T) {
	text := Terminal(load(t, "sim"))
	if !strings.Contains(text, "SIMULATED · store mem · profile local") {
		t.Error("the table's head has no mark")
	}
	table := text[strings.Index(text, "checkpoint duration"):strings.Index(text, "checks ")]
	for _, l := range strings.Split(table, "\n") {
		for _, m := range regexp.MustCompile(`\d (ms|s|µs|k/s|/s)( +|$)(sim)?`).FindAllString(l, -1) {
			if !strings.HasSuffix(m, "sim") && !strings.Contains(l, "detection") && !strings.Contains(m, "behind") {
				t.Errorf("no mark beside %q in %q", m, l)
			}
		}
	}
}

func TestFailureComesFirstWithTimelineAndRepeat(t *testing.T) {
	text := Terminal(load(t, "sim"))
	for _, want := range []string{"FAIL  F5", "(event 120)", "→", "again bench run --plan testdata/sim/runs/changelog-on-1/plan.json"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if !strings.HasPrefix(text, "FAIL  F5") {
		t.Errorf("begins with %.60q", text)
	}
	if strings.Contains(text, "exit ") {
		t.Error("the exit line is the command's")
	}
}

func TestNoGainIsDerivedFromTheFigures(t *testing.T) {
	const words = "no gain to speak of is to be expected"
	tiny := Terminal(fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 1, tiny: true}))
	if !strings.Contains(strings.Join(strings.Fields(tiny), " "), words) {
		t.Errorf("a state below the threshold is not noted:\n%s", tiny)
	}
	if large := Terminal(fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 1})); strings.Contains(large, words) {
		t.Errorf("a state above the threshold is noted:\n%s", large)
	}
}

func TestStartsNameTheirModes(t *testing.T) {
	head, notes := "local · starts claim, no-claim", "starts of off-1: last-checkpoint 49, no-claim, parallelism 5; last-checkpoint 50, claim, parallelism 5"
	inv := fresh(t, made{arms: []string{"off"}, reps: 1, starts: []string{"no-claim", "claim", "no-claim"}})
	_, html := render(t, inv)
	for form, text := range map[string]string{"terminal": Terminal(inv), "summary": summary(inv), "page": html} {
		text = strings.Join(strings.Fields(text), " ")
		if !strings.Contains(text, head) || !strings.Contains(text, notes) {
			t.Errorf("%s lacks %q or %q:\n%s", form, head, notes, text)
		}
	}
	if text := Terminal(fresh(t, made{arms: []string{"off"}, reps: 1})); strings.Contains(text, "starts ") {
		t.Errorf("a job that was never stopped was started:\n%s", text)
	}
	if !notable(history.JobStarted) || !notable(history.JobStopped) {
		t.Error("a timeline leaves starts out")
	}
}

func TestManyArmsAreShownInParts(t *testing.T) {
	arms := []string{"off", "a-on", "b-on", "c-on", "d-on", "e-on"}
	inv := fresh(t, made{arms: arms, reps: 1})
	text := Terminal(inv)
	if n := strings.Count(text, "real · store embedded · profile local\n"); n != 2 {
		t.Errorf("%d tables, want 2:\n%s", n, text)
	}
	for _, want := range []string{"c-on/off", "e-on/off"} {
		if !strings.Contains(text, want) {
			t.Errorf("no column %s", want)
		}
	}
	render(t, inv)
}

func TestPhasesWithOtherFaultsAreNotCompared(t *testing.T) {
	inv := fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 1, change: func(p *plan.Plan) {
		if p.Arm == "changelog-on" {
			p.Faults = nil
		}
		p.Rescales[0].At = plan.Trigger{Event: string(history.CheckpointCompleted), Count: 3, Since: "phase"}
	}})
	text := strings.Join(strings.Fields(Terminal(inv)), " ")
	for _, want := range []string{"phase crash is shown, not compared: its faults", "phase rescale is shown, not compared: rescale-1 is placed by an event"} {
		if !strings.Contains(text, want) {
			t.Errorf("no warning %q in %s", want, text)
		}
	}
	if strings.Contains(text, "recovery, ") {
		t.Error("recoveries of phases that are not compared stand in the key table")
	}
}

func TestVerdictsFailuresFirst(t *testing.T) {
	v := []results.Verdict{{Check: "H1", Verdict: results.Pass, Name: "a", Summary: "fine"}, {Check: "S1", Verdict: results.Inconclusive, Name: "b", Summary: "unknown"},
		{Check: "F1", Verdict: results.Fail, Name: "c", Summary: "3 violations; the first: x", Evidence: []string{"x", "y"}}}
	want := "FAIL  F1  c  run-1  3 violations\n      x\n      y\ninconclusive  S1  b  run-1\n      unknown\npass  H1  a  run-1: fine\n"
	if got := Verdicts("run-1", v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Verdicts("run-1", nil); !strings.Contains(got, "no verdicts") {
		t.Error(got)
	}
}

func TestReduceKeepsExtremes(t *testing.T) {
	var points []point
	for i := range 100_000 {
		points = append(points, point{float64(i), float64(i % 977)})
	}
	points[54_321].y = 1e6
	out := reduce(points, 0, 100_000, 500)
	if len(out) > 1000 {
		t.Errorf("%d points left", len(out))
	}
	high := 0.0
	for i, p := range out {
		high = max(high, p.y)
		if i > 0 && p.x < out[i-1].x {
			t.Fatal("out of order")
		}
	}
	if high != 1e6 {
		t.Error("the spike got lost")
	}
}

func TestMissesComeFirst(t *testing.T) {
	inv := fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 2, expect: []string{"checkpoint.duration.p50", "< 100ms", "checkpoint.align.p99", "< 1s", "recoveryPointAge.max", "<= 1h"}})
	text := Terminal(inv)
	for _, want := range []string{"MISS  steady checkpoint.duration.p50: ", ", expected < 100ms, in changelog-off-1\n", "MISS  steady checkpoint.align.p99: too few samples (24 of 1,000 needed), expected < 1s, in changelog-on-2",
		"expect   6 met · 6 missed · 0 unknown\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if !regexp.MustCompile(`(?m)^steady +checkpoint.duration.p50  < 100ms  MISS \d+ ms in 2 of 2 +\d+\.?\d* ms$`).MatchString(text) {
		t.Errorf("no line of the table in\n%s", text)
	}
	if !strings.HasPrefix(text, "MISS") || strings.Contains(text, "in changelog-on-1, expected < 100ms") {
		t.Errorf("begins with %.80q", text)
	}
	lines := Expectations("run-1", inv.Runs[0].Expected)
	if !strings.HasPrefix(lines, "MISS  steady checkpoint.duration.p50: ") || !strings.Contains(lines, "\nmet   steady recoveryPointAge.max: 1.") {
		t.Error(lines)
	}
	must(t, os.Remove(inv.Dir.Run("changelog-on-2").Path(results.ExpectFile)))
	again, err := Load(inv.Dir)
	must(t, err)
	if Terminal(again) != text {
		t.Error("expectations that were not stored are not judged again")
	}
}

// TestBenchTextIsWhatBenchstatReads holds bench.txt to the grammar of Go's benchmark format.
func TestBenchTextIsWhatBenchstatReads(t *testing.T) {
	inv := fresh(t, made{arms: []string{"off", "hostile", "x-2"}, reps: 2})
	for _, r := range inv.Runs {
		r.Entry.Arm = strings.Replace(r.Entry.Arm, "hostile", "a/b on", 1)
	}
	inv.Manifest.Scenario, inv.Manifest.Profile = "9 lives", "my profile"
	config := regexp.MustCompile(`^[a-z][^A-Z\s:]*: \S.*$`)
	unit := regexp.MustCompile(`^Unit \S+ better=(lower|higher)$`)
	result := regexp.MustCompile(`^BenchmarkX9Lives/world=real/profile=my_profile/phase=\w+/arm=(off|a_b_on|x-2)-8 [1-9]\d*( -?[0-9.]+(e[+-]?\d+)? [^\s0-9]\S*)+$`)
	results := 0
	for _, l := range strings.Split(strings.TrimSpace(benchText(inv)), "\n") {
		switch {
		case strings.HasPrefix(l, "Benchmark"):
			if !result.MatchString(l) || len(strings.Fields(l))%2 != 0 {
				t.Errorf("no result: %s", l)
			}
			results++
		case l != "" && !config.MatchString(l) && !unit.MatchString(l):
			t.Errorf("neither configuration nor unit: %q", l)
		}
	}
	if results != 3*2*3 {
		t.Errorf("%d results, want one for each of 6 runs and 3 phases", results)
	}
}

func TestAnImpossibleRateIsNotKept(t *testing.T) {
	inv := fresh(t, made{arms: []string{"changelog-off", "changelog-on"}, reps: 1, sim: true, change: func(p *plan.Plan) {
		if p.Arm == "changelog-on" {
			p.Workload.Rate = 1e7
		}
	}})
	if text := Terminal(inv); !strings.Contains(strings.Join(strings.Fields(text), " "), "source did not keep its schedule: on (0 % of the rate over a phase)") {
		t.Error(text)
	}
}
