package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"statebench.dev/bench/internal/results"
)

//go:embed page.html page.css
var assets embed.FS

// view is what page.html shows. All text in it is escaped by the template but for Style and the pictures, which are ours.
type view struct {
	M         *results.Manifest
	Simulated bool
	Head      string
	Style     template.CSS
	Verdict   verdictView
	Tables    []tableView
	Phases    []phaseView
	Arms      []string
	Charts    []chartView
	Recovery  []recoveryView
	Promises  []promiseView
	Checks    []checkView
	RunNames  []string
	Runs      []runView
	Notes     []string
	All       []parameter
	Differ    []parameter
	Files     []fileGroup
	Facts     [][2]string
	TallyText string
}

// parameterTable is what the template for settings takes.
type parameterTable struct {
	Arms []string
	List []parameter
}

// DifferTable are the settings in which arms differ.
func (v view) DifferTable() parameterTable { return parameterTable{v.Arms, v.Differ} }

// AllTable are all settings.
func (v view) AllTable() parameterTable { return parameterTable{v.Arms, v.All} }

// verdictView is the box that answers at first sight.
type verdictView struct {
	Class, Word, Text string
	Failures          []failureView
	Misses            []string
	Comparisons       []comparisonView
	Warnings          []string
	Again             []string
}

type failureView struct{ Anchor, Check, Name, Run, Word, First string }

type comparisonView struct {
	Arm, Base     string
	Better, Worse []string
}

type tableView struct {
	Against string
	Columns []columnView
	Rows    []rowView
}

type columnView struct {
	Name  string
	Ratio bool
}

type rowView struct {
	Label, Stat, Reason, Samples, Note string
	Sub                                bool
	Cells                              []cellView
	Span                               int
}

type cellView struct {
	Text  string
	Ratio bool
	Class string
}

type chartView struct {
	Name, Title, About string
	SVG                template.HTML
}

// page is report.html: one file that needs nothing else.
func page(inv *Invocation, pictures []picture) ([]byte, error) {
	style, err := assets.ReadFile("page.css")
	if err != nil {
		return nil, err
	}
	tmpl, err := template.New("page.html").Funcs(template.FuncMap{
		"bytes": func(n int64) string { return formatBytes(float64(n)) },
		"count": formatCount,
		"line":  oneLine,
	}).ParseFS(assets, "page.html")
	if err != nil {
		return nil, err
	}
	t := newTable(inv)
	v := view{M: &inv.Manifest, Simulated: inv.simulated(), Head: inv.head(), Style: template.CSS(style), Notes: inv.notes(t),
		Verdict: inv.verdict(t), Phases: phaseViews(t), Recovery: recoveryViews(inv, t), Promises: promiseViews(t), Checks: checkViews(inv), Facts: inv.facts(), TallyText: inv.tally().text()}
	for _, part := range t.split() {
		v.Tables = append(v.Tables, part.view())
	}
	for _, a := range t.arms {
		v.Arms = append(v.Arms, a.name)
	}
	for _, p := range pictures {
		v.Charts = append(v.Charts, chartView{Name: p.name, Title: p.title, About: p.about, SVG: inline(p)})
	}
	for _, r := range inv.Runs {
		v.RunNames = append(v.RunNames, r.Entry.Name)
		v.Runs = append(v.Runs, r.view())
	}
	v.All = parameters(t.arms)
	for _, p := range v.All {
		if p.Differs {
			v.Differ = append(v.Differ, p)
		}
	}
	v.Files = inv.files()
	var b bytes.Buffer
	if err := tmpl.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("render page: %w", err)
	}
	return b.Bytes(), nil
}

// inline makes an SVG a part of the page: it scales, has a name, and follows the page's colours.
func inline(p picture) template.HTML {
	s := string(p.svg)
	if i := strings.Index(s, "<svg"); i >= 0 {
		s = s[i:]
	}
	head, rest, _ := strings.Cut(s, ">")
	from := strings.Index(head, "viewBox=")
	box := head[max(0, from):]
	if q := strings.Index(box, "\n"); q > 0 {
		box = box[:q]
	}
	for _, c := range themed() {
		rest = strings.ReplaceAll(rest, ":"+c[0], ":var("+c[1]+")")
	}
	rest = strings.ReplaceAll(rest, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	label := template.HTMLEscapeString(p.title + ". " + p.about)
	return template.HTML(fmt.Sprintf(`<svg %s xmlns="http://www.w3.org/2000/svg" role="img" aria-label="%s">%s`, box, label, rest))
}

// verdict fills the box.
func (inv *Invocation) verdict(t *table) verdictView {
	m := &inv.Manifest
	n := inv.tally()
	planned, hit, healed := inv.faultCounts()
	v := verdictView{Word: m.Outcome, Class: map[bool]string{true: "pass", false: "unsure"}[m.Exit == 0 && m.Outcome == results.Pass], Warnings: inv.warnings(t), Again: inv.again()}
	if n.fail > 0 {
		v.Class = "fail"
	}
	v.Text = fmt.Sprintf("%d checks passed, %d failed, %d inconclusive in %s.", n.pass, n.fail, n.inconclusive, plural(len(inv.Runs), "run"))
	if planned > 0 {
		v.Text += fmt.Sprintf(" Of %s planned %d had an effect and %d were healed.", plural(planned, "fault"), hit, healed)
	}
	if planned, done := inv.rescaleCounts(); planned+done > 0 {
		v.Text += fmt.Sprintf(" Of %s planned %d were carried through.", plural(planned, "rescale"), done)
	}
	v.Misses = inv.misses()
	if s := inv.expectText(); s != "" {
		v.Text += " Expectations: " + s + "."
	}
	for _, r := range inv.Runs {
		for _, x := range failures(r.Verdicts) {
			_, evidence := findings(x)
			v.Failures = append(v.Failures, failureView{Anchor: anchor(x.Check), Check: x.Check, Name: x.Name, Run: r.Entry.Name, Word: word(x.Verdict), First: evidence[0]})
		}
	}
	for _, c := range compare(t) {
		v.Comparisons = append(v.Comparisons, comparisonView{Arm: c.arm.name, Base: t.base.name, Better: c.better, Worse: c.worse})
	}
	return v
}

func anchor(check string) string { return "check-" + slug(check) }

// view is the key table.
func (t *table) view() (v tableView) {
	v.Against = t.against()
	var ratio []bool
	for _, a := range t.arms {
		ratio = append(ratio, false)
		if t.base != nil && a != t.base {
			ratio = append(ratio, true)
		}
	}
	for i, name := range t.columns() {
		v.Columns = append(v.Columns, columnView{name, ratio[i]})
	}
	for _, r := range t.rows {
		cells, reason := t.cells(r)
		rv := rowView{Label: r.label, Stat: r.stat, Reason: reason, Samples: r.samples(), Note: r.note, Sub: strings.HasPrefix(r.label, " "), Span: len(ratio) + 1}
		for i, c := range cells {
			cv := cellView{Text: c, Ratio: ratio[i]}
			if k := armAt(ratio, i); r.texts == nil && !r.figures[k].OK() && !ratio[i] {
				cv.Class = "reason"
			}
			rv.Cells = append(rv.Cells, cv)
		}
		v.Rows = append(v.Rows, rv)
	}
	return v
}

// armAt is the number of the arm that column i belongs to.
func armAt(ratio []bool, i int) (k int) {
	for _, r := range ratio[:i+1] {
		if !r {
			k++
		}
	}
	return k - 1
}

// fileGroup is the raw files of the invocation, or of one run.
type fileGroup struct {
	Name  string
	Files []fileView
}

type fileView struct {
	Path string
	Size int64
}

// files lists the raw files that are there.
func (inv *Invocation) files() (groups []fileGroup) {
	group := func(name, folder string, names []string) {
		g := fileGroup{Name: name}
		for _, n := range names {
			if found, err := results.Find(inv.Dir.Path(folder, n)); err == nil {
				n = path.Base(filepath.ToSlash(found))
			}
			if info, err := os.Stat(inv.Dir.Path(folder, n)); err == nil && !info.IsDir() {
				g.Files = append(g.Files, fileView{Path: path.Join(folder, n), Size: info.Size()})
			}
		}
		if len(g.Files) > 0 {
			groups = append(groups, g)
		}
	}
	group("invocation", "", []string{results.ManifestFile, results.ResolvedFile, results.BenchFile})
	for _, r := range inv.Runs {
		group(r.Entry.Name, path.Join(results.RunsDir, r.Entry.Name), []string{results.PlanFile, results.VerdictsFile, results.ExpectFile, results.CheckpointsFile,
			results.RecoveriesFile, results.SeriesFile, results.LatenciesFile, results.HistoryFile, results.ObjectsFile, results.RefsFile, results.CoordLogFile,
			results.ListingFile, results.StatesFile, results.OutputFile})
	}
	var plots []string
	for _, c := range inv.charts() {
		plots = append(plots, c+".svg", c+".png")
	}
	group("plots", results.PlotsDir, plots)
	return slices.Clip(groups)
}
