package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"statebench.dev/bench/internal/results"
)

// Names of the files of a comparison, in the directory of the invocation or where the user wants them.
const (
	MarkdownFile = "comparison.md"
	LinesFile    = "comparison.jsonl"
	ForestName   = "compare-forest" // of the plot, .svg and .png
)

// Markdown is what Text says, for the summary of a job or a pull request.
func (c *Comparison) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %s against %s\n\n", escape(c.Scenario), escape(c.B.Name), escape(c.A.Name))
	if c.simulated() {
		b.WriteString("**SIMULATED:** every duration and rate comes from a cost model, none was measured.\n\n")
	}
	for _, s := range c.Sentences() {
		fmt.Fprintf(&b, "- %s\n", escape(s))
	}
	for _, w := range c.Warnings {
		fmt.Fprintf(&b, "- warning: %s\n", escape(w))
	}
	if c.Void != "" {
		fmt.Fprintf(&b, "- void: %s\n", escape(c.Void))
	}
	for _, t := range c.tables() {
		fmt.Fprintf(&b, "\n**%s**\n\n", escape(t.title))
		line := func(cells []string) {
			for _, cell := range cells {
				fmt.Fprintf(&b, "| %s ", escape(cell))
			}
			b.WriteString("|\n")
		}
		line(t.columns)
		b.WriteString(strings.Repeat("| --- ", len(t.columns)) + "|\n")
		for _, r := range t.cells {
			line(r)
		}
	}
	fmt.Fprintf(&b, "\nRuns: %s.\n\n", escape(c.runs()))
	for _, r := range c.Invalid {
		fmt.Fprintf(&b, "- invalid: %s: %s\n", escape(r.Name), escape(strings.Join(r.Invalid, "; ")))
	}
	for _, d := range c.differing() {
		fmt.Fprintf(&b, "- differs: %s\n", escape(d))
	}
	return b.String()
}

// escape keeps text of unknown origin from being taken for markup.
func escape(s string) string {
	var b strings.Builder
	for _, r := range oneLine(s) {
		if strings.ContainsRune("\\`*_[]<>|#&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// headLine is the first line of comparison.jsonl.
type headLine struct {
	Kind     string   `json:"kind"` // comparison
	Schema   int      `json:"schema"`
	Scenario string   `json:"scenario"`
	World    string   `json:"world"`
	Store    string   `json:"store"`
	Profile  string   `json:"profile"`
	A        string   `json:"a"`
	B        string   `json:"b"`
	Level    float64  `json:"level"`
	Pairs    int      `json:"pairs"`
	Unpaired bool     `json:"unpaired"`
	Void     string   `json:"void"`
	Warnings []string `json:"warnings"`
	Exit     int      `json:"exit"`
}

// differenceLine is a setting in which the variants differ.
type differenceLine struct {
	Kind string `json:"kind"` // difference
	Key  string `json:"key"`
	A    string `json:"a"`
	B    string `json:"b"`
	Arm  bool   `json:"arm"`
}

// runLine is a run, whether it counts or not.
type runLine struct {
	Kind    string   `json:"kind"` // run
	Side    string   `json:"side"` // a or b
	Dir     string   `json:"dir"`  // below the folder of results
	Seed    uint64   `json:"seed"`
	Valid   bool     `json:"valid"`
	Reasons []string `json:"reasons"`
	Canary  *Canary  `json:"canary"`
}

// metricLine is a metric; every line has every key.
type metricLine struct {
	Kind       string       `json:"kind"` // metric
	Phase      string       `json:"phase"`
	Metric     string       `json:"metric"`
	Unit       string       `json:"unit"`
	Better     string       `json:"better"`
	Class      Class        `json:"class"`
	Primary    bool         `json:"primary"`
	Simulated  bool         `json:"simulated"` // the values come from the cost model
	Verdict    Verdict      `json:"verdict"`
	Reason     string       `json:"reason"`
	Missing    string       `json:"missing"`
	Pairs      int          `json:"pairs"`
	MorePairs  int          `json:"morePairs"`
	A          results.Opt  `json:"a"` // medians
	B          results.Opt  `json:"b"`
	Scale      string       `json:"scale"` // ratio: estimate and the like are shares; difference: they are in the unit
	Estimate   results.Opt  `json:"estimate"`
	Low        results.Opt  `json:"low"`
	High       results.Opt  `json:"high"`
	P          results.Opt  `json:"p"`
	Adjusted   results.Opt  `json:"adjustedP"`
	Detectable results.Opt  `json:"detectable"`
	Floor      float64      `json:"floor"`
	Absolute   float64      `json:"absoluteFloor"`
	Values     [][2]float64 `json:"values"` // of each pair
}

// Lines is comparison.jsonl: one JSON object a line, first the comparison, then what differs, the runs, the metrics.
func Lines(list []*Comparison) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, c := range list {
		all := []any{headLine{"comparison", results.Schema, c.Scenario, c.World, c.Store, c.Profile, c.A.Name, c.B.Name, c.Level, len(c.Pairs), c.Unpaired, c.Void, append([]string{}, c.Warnings...), c.Exit()}}
		for _, d := range c.Differences {
			all = append(all, differenceLine{"difference", d.Key, d.A, d.B, d.Arm})
		}
		for i, s := range []Side{c.A, c.B} {
			for _, r := range s.Runs {
				l := runLine{Kind: "run", Side: string(rune('a' + i)), Dir: place(r), Valid: r.Valid(), Reasons: append([]string{}, r.Invalid...), Canary: r.Canary}
				if r.Plan != nil {
					l.Seed = r.Plan.Seed
				}
				all = append(all, l)
			}
		}
		for i := range c.Rows {
			all = append(all, c.line(&c.Rows[i]))
		}
		for _, l := range all {
			if err := out.Encode(l); err != nil {
				return nil, fmt.Errorf("encode %s: %w", LinesFile, err)
			}
		}
	}
	return b.Bytes(), nil
}

// place is where a run lies below the folder of results.
func place(r *Run) string {
	return path.Join(r.Manifest.Scenario, filepath.Base(string(r.Invocation)), results.RunsDir, r.Name)
}

func (c *Comparison) line(r *Row) metricLine {
	l := metricLine{
		Kind: "metric", Phase: r.Phase, Metric: r.Metric.Name, Unit: string(r.Metric.Unit), Better: string(r.Metric.Better), Class: r.rule.Class,
		Primary: r.Primary, Simulated: c.timed(r.Metric), Verdict: r.Verdict, Reason: r.Reason, Missing: r.Missing, Pairs: r.Pairs, MorePairs: r.More,
		Scale: "ratio", Floor: r.rule.Floor, Absolute: r.rule.Absolute, Values: [][2]float64{},
	}
	if r.Plain {
		l.Scale = "difference"
	}
	opt := func(v float64, set bool) results.Opt { return results.Opt{Value: v, Set: set} }
	l.A, l.B, l.Estimate = opt(r.A, r.Pairs > 0), opt(r.B, r.Pairs > 0), opt(r.Estimate, r.Pairs > 0)
	l.Low, l.High = opt(r.Low, r.Bounded), opt(r.High, r.Bounded)
	l.P, l.Adjusted, l.Detectable = opt(r.P, r.tested), opt(r.Adjusted, r.tested), opt(r.Judgement.Detectable, r.Bounded && r.Detectable > 0)
	for _, p := range r.Values {
		l.Values = append(l.Values, [2]float64{p.A, p.B})
	}
	return l
}
