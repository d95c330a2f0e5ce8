package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"statebench.dev/bench/internal/plan"
	"statebench.dev/bench/internal/results"
)

func side() made { return made{arms: []string{"changelog-off", "changelog-on"}, reps: 1} }

// render makes everything but PNGs; nothing of it may panic.
func render(t *testing.T, inv *Invocation) (text, html string) {
	t.Helper()
	pictures, err := inv.draw()
	must(t, err)
	b, err := page(inv, pictures)
	must(t, err)
	return Terminal(inv) + "\n" + summary(inv), string(b)
}

// runFiles are the files that Load reads of a finished run.
func runFiles() []string {
	return []string{results.PlanFile, results.HistoryFile, results.ObjectsFile, results.ListingFile, results.StatesFile,
		results.SeriesFile, results.CheckpointsFile, results.RecoveriesFile, results.VerdictsFile}
}

func TestDamagedFilesAreNamed(t *testing.T) {
	for _, file := range runFiles() {
		t.Run(file, func(t *testing.T) {
			dir := results.Dir(filepath.Join(t.TempDir(), "x"))
			side().write(t, dir)
			path := dir.Run("changelog-on-1").Path(file)
			whole, err := os.ReadFile(path)
			must(t, err)
			for name, b := range map[string][]byte{"cut": whole[:len(whole)-3], "garbage": append([]byte("\x00{"), whole...), "missing": nil} {
				if b == nil {
					must(t, os.Remove(path))
				} else {
					must(t, os.WriteFile(path, b, 0o644))
				}
				if _, err := Load(dir); !errors.Is(err, results.ErrDamaged) || !strings.Contains(err.Error(), file) {
					t.Errorf("%s: error is %v", name, err)
				}
			}
		})
	}
}

func TestNumbersThatAreNoneAreDamage(t *testing.T) {
	for _, bad := range []string{"NaN", "Inf", "-Inf", "1e999", "seven"} {
		dir := results.Dir(filepath.Join(t.TempDir(), "x"))
		side().write(t, dir)
		path := dir.Run("changelog-on-1").Path(results.CheckpointsFile)
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte(strings.Replace(string(b), ",2,", ","+bad+",", 1)), 0o644))
		if _, err := Load(dir); !errors.Is(err, results.ErrDamaged) {
			t.Errorf("%s: error is %v", bad, err)
		}
	}
}

func TestAbsurdNumbersAreRendered(t *testing.T) {
	for _, v := range []float64{0, -5, 1e17, 1.7e308} {
		dir := results.Dir(filepath.Join(t.TempDir(), "x"))
		side().write(t, dir)
		inv, err := Load(dir)
		must(t, err)
		for _, r := range inv.Runs {
			for i := range r.Checkpoints {
				c := &r.Checkpoints[i]
				for _, o := range []*results.Opt{&c.Duration, &c.Sync, &c.Full, &c.Base, &c.Checkpointed, &c.Trigger, &c.Planned} {
					if i%2 == 0 {
						*o = results.Some(v)
					}
				}
			}
			for i := range r.Recoveries {
				c := &r.Recoveries[i]
				for _, o := range []*results.Opt{&c.Fault, &c.Detect, &c.Restart, &c.RestoreBase, &c.Replay, &c.FirstOutput, &c.Outage, &c.Recovery, &c.BaseBytes, &c.Replayed} {
					*o = results.Some(v)
				}
			}
			for i := range r.Series {
				r.Series[i].At, r.Series[i].Lag, r.Series[i].CPU = v, v, results.Some(v)
			}
		}
		text, html := render(t, inv)
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(text, bad) || strings.Contains(html, bad) {
				t.Errorf("with %g something is %s:\n%s", v, bad, text)
			}
		}
		if v > 1e300 {
			must(t, Write(inv)) // pixels too
		}
	}
}

// TestMostCheckpointsTakeNoTime is what a small state gives in the simulated world under profile local: no logarithm has a
// place for the median.
func TestMostCheckpointsTakeNoTime(t *testing.T) {
	dir := results.Dir(filepath.Join(t.TempDir(), "x"))
	side().write(t, dir)
	inv, err := Load(dir)
	must(t, err)
	for _, r := range inv.Runs {
		for i := range r.Checkpoints {
			if i%8 != 0 {
				r.Checkpoints[i].Duration = results.Some(0.0)
			}
		}
	}
	render(t, inv)
}

func TestNamesCannotBecomeMarkup(t *testing.T) {
	const evil = `<img id=x onerror="a()">`
	inv := fresh(t, made{arms: []string{"off" + evil, "on" + evil + "-on"}, reps: 1, change: func(p *plan.Plan) {
		p.Faults[0].Kind = evil
		p.Workload.Name = evil
	}})
	inv.Manifest.Scenario, inv.Manifest.About, inv.Manifest.Detection, inv.Manifest.Outcome = evil, evil, evil, evil
	inv.Manifest.Command = []string{"bench", "run", evil + "\x1b[2J"}
	for _, r := range inv.Runs {
		r.Verdicts[1] = results.Verdict{Check: evil, Name: evil, Verdict: results.Fail, Summary: evil, Evidence: []string{evil + "\x1b[31m\r\n"}, Events: []int64{7, -1}}
		for i := range r.Recoveries {
			r.Recoveries[i].Cause, r.Recoveries[i].ID = evil, evil
		}
		for i := range r.story.bands {
			r.story.bands[i].id = evil
		}
		r.story.notes = append(r.story.notes, evil)
	}
	text, html := render(t, inv)
	if strings.Contains(html, "<img") {
		at := strings.Index(html, "<img")
		t.Errorf("markup from a name: …%s…", html[max(0, at-100):at+60])
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Error("control characters reach the terminal")
	}
	md, _, _ := strings.Cut(summary(inv), "```") // behind it come commands, which are text
	if strings.Contains(strings.ReplaceAll(md, `\<`, ""), "<img") {
		t.Error("markup in summary.md")
	}
}

func TestNothingMeasuredSaysWhy(t *testing.T) {
	m := side()
	m.quiet = true
	text, html := render(t, fresh(t, m))
	for _, want := range []string{"no samples", "0, 0, 0", "no checkpoint completed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, want := range []string{"no checkpoint completed", "no recovery, since the plans", "no completed checkpoint with sizes"} {
		if !strings.Contains(strings.Join(strings.Fields(html), " "), want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

func TestInvocationWithoutRuns(t *testing.T) {
	dir := results.Dir(t.TempDir())
	must(t, results.WriteJSON(dir.Path(results.ManifestFile), results.Manifest{Schema: results.Schema, Scenario: "x", World: "real", Outcome: "running"}))
	inv, err := Load(dir)
	must(t, err)
	text, _ := render(t, inv)
	if !strings.Contains(text, "the program ended before this invocation did") {
		t.Error(text)
	}
}

// rewrite changes the manifest of a stored invocation.
func rewrite(t *testing.T, dir results.Dir, change func(m *results.Manifest)) {
	t.Helper()
	var m results.Manifest
	must(t, results.ReadJSON(dir.Path(results.ManifestFile), &m))
	change(&m)
	must(t, results.WriteJSON(dir.Path(results.ManifestFile), m))
}

func TestInterruptedInvocationIsRendered(t *testing.T) {
	dir := results.Dir(filepath.Join(t.TempDir(), "x"))
	side().write(t, dir)
	rewrite(t, dir, func(m *results.Manifest) {
		m.Exit, m.Outcome = 130, "interrupted"
		m.Runs[0].Status = "interrupted"
		m.Runs[1].Status = "not-run"
	})
	must(t, os.RemoveAll(string(dir.Run("changelog-on-1"))))
	for _, f := range []string{results.ListingFile, results.StatesFile, results.OutputFile} {
		must(t, os.Remove(dir.Run("changelog-off-1").Path(f)))
	}
	inv, err := Load(dir)
	must(t, err)
	text, html := render(t, inv)
	for _, want := range []string{"changelog-off-1 interrupted", "changelog-on-1 was not run", "bench run --plan"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !strings.Contains(html, "did not reach its verify phase") || !strings.Contains(html, "was not started") {
		t.Error("the page does not say why there is no audit")
	}
}

func TestFailedRunShowsWhatCanBeRead(t *testing.T) {
	for _, file := range runFiles() {
		dir := results.Dir(filepath.Join(t.TempDir(), "x"))
		side().write(t, dir)
		rewrite(t, dir, func(m *results.Manifest) {
			m.Exit, m.Outcome = 2, "inconclusive"
			m.Runs[1].Status, m.Runs[1].Error = statusFailed, "no space left on device"
		})
		path := dir.Run("changelog-on-1").Path(file)
		b, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, b[:len(b)/2], 0o644))
		inv, err := Load(dir)
		must(t, err)
		text := Terminal(inv)
		_, err = page(inv, nil)
		must(t, err)
		if !strings.Contains(text, "no space left on device") || len(inv.Runs[1].Problems) != 1 {
			t.Errorf("%s: problems %q in\n%s", file, inv.Runs[1].Problems, text)
		}
	}
}
