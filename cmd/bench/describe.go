package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/registry"
	"statebench.dev/bench/internal/scenario"

	"github.com/spf13/cobra"
)

func newDescribe(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "describe <workload|fault|metric>", Short: "Describe a metric, or the options of a workload or a fault",
		Example: "  bench describe counter\n  bench describe worker-crash\n  bench describe throughput",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("`bench describe` takes one name, got %d; `bench list workloads faults metrics` has them", len(args))
			}
			text, err := describe(args[0])
			if err == nil {
				_, err = fmt.Fprint(stdout, text)
			}
			return err
		},
	}
}

// describe says what a workload or a fault is and which options a scenario can give it.
func describe(name string) (string, error) {
	t := catalog.Scenario()
	var names []string
	for _, e := range t.Workloads.Entries() {
		if e.Name == name {
			defaults := map[string]string{}
			if resolved, err := e.New.Resolve(nil); err == nil { // a workload with needed options has no defaults to show
				flatten(defaults, "", resolved)
			}
			return title("workload", e.Name, e.About) + optionTable("workload", e.New.Options, defaults), nil
		}
		names = append(names, e.Name)
	}
	for _, e := range t.Faults.Entries() {
		if e.Name == name {
			return title("fault", e.Name, e.About) + optionTable("with", e.New.Options, nil), nil
		}
		names = append(names, e.Name)
	}
	for _, m := range metrics.All() {
		if m.Name == name {
			return metricText(m), nil
		}
		names = append(names, m.Name)
	}
	if near := registry.Nearest(name, names); near == "" {
		return "", usage("unknown name %q; `bench list workloads faults metrics` has those that there are", name)
	}
	return "", usage("%v", unknownName("workload, fault or metric", name, names))
}

// metricText says what a metric is, what it is taken over, and how something is expected of it.
func metricText(m metrics.Metric) string {
	var b strings.Builder
	fmt.Fprintf(&b, "metric %s: %s\n", m.Name, m.About)
	unit := string(m.Unit)
	if unit == "" {
		unit = "a plain number"
	}
	line := func(what, text string) { fmt.Fprintf(&b, "  %-8s %s\n", what, text) }
	line("unit", unit)
	over := string(m.Samples)
	if m.Need > 0 {
		over += fmt.Sprintf("; a phase must give %d of them at least", m.Need)
	}
	line("over", over)
	if m.Better != metrics.Neither {
		line("better", string(m.Better))
	}
	if m.Measured {
		line("world", "real only: it is measured on the machine")
	}
	line("expect", fmt.Sprintf("{steady: {%s: %q}}", m.Name, m.Example()))
	return b.String()
}

func title(what, name, about string) string { return fmt.Sprintf("%s %s: %s\n", what, name, about) }

// optionTable lists options in columns: name, kind, default, meaning.
func optionTable(under string, options []scenario.Option, defaults map[string]string) string {
	if len(options) == 0 {
		return "it has no options\n"
	}
	lines := [][4]string{{"option", "kind", "default", "meaning"}}
	for _, o := range options {
		lines = append(lines, [4]string{o.Name, o.Kind, defaults[o.Name], o.About})
	}
	var width [4]int
	for _, l := range lines {
		for i, c := range l {
			width[i] = max(width[i], len(c))
		}
	}
	if len(defaults) == 0 {
		width[2] = 0
	}
	var b strings.Builder
	fmt.Fprintf(&b, "options, under %s:\n", under)
	for _, l := range lines {
		var s strings.Builder
		for i, c := range l {
			if width[i] > 0 {
				fmt.Fprintf(&s, "  %-*s", width[i], c)
			}
		}
		b.WriteString(strings.TrimRight(s.String(), " ") + "\n")
	}
	return b.String()
}

// flatten puts the values of nested options under their dotted names.
func flatten(into map[string]string, prefix string, value json.RawMessage) {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		into[prefix] = string(bytes.Trim(value, `"`))
		return
	}
	for name, v := range object { // order-free: each goes to its own place
		if prefix != "" {
			name = prefix + "." + name
		}
		flatten(into, name, v)
	}
}
