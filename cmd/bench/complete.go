package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/metrics"
	"statebench.dev/bench/internal/scenario"

	"github.com/spf13/cobra"
)

// shells are those that completion knows, each with what makes its script.
func shells() map[string]func(root *cobra.Command, w io.Writer) error {
	return map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
	}
}

func newCompletion(stdout io.Writer) *cobra.Command {
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion <bash|zsh|fish|powershell>", Short: "Print a script that completes command lines in a shell",
		Long: "completion prints a script that a shell reads. It completes commands, flags, scenario files, and what these files and\n" +
			"this program name: arms, parameters, stores, profiles, workloads, faults.",
		Example: "  source <(bench completion bash)\n" +
			"  bench completion zsh > \"${fpath[1]}/_bench\"\n" +
			"  bench completion fish > ~/.config/fish/completions/bench.fish\n" +
			"  bench completion powershell | Out-String | Invoke-Expression",
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("`bench completion` takes one shell of %s, got %d", strings.Join(names, ", "), len(args))
			}
			script, ok := shells()[args[0]]
			if !ok {
				return usage("%v", unknownName("shell", args[0], names))
			}
			return script(cmd.Root(), stdout)
		},
	}
}

// completer offers what may stand somewhere on a command line.
type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// complete gives commands and their flags what the shell offers for them. Flags that a command does not have are skipped.
func complete(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "run", "plan":
			c.ValidArgsFunction = offerScenario
		case "check", "report", "replay", "shrink":
			c.ValidArgsFunction = offerFolder
		case "describe":
			c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return slices.Concat(catalog.Workloads().Names(), catalog.Faults().Names(), metrics.Names()), cobra.ShellCompDirectiveNoFileComp
			}
		}
		for name, offer := range map[string]completer{ // order-free: each flag for itself
			"world": fixed("real", "sim"), "arm": ofScenario(armNames), "set": ofScenario(paramNames),
			"store": offerStores, "profile": offerProfiles, "out": offerFolder,
		} {
			if c.Flags().Lookup(name) != nil && (name != "out" || c.Name() != "calibrate") {
				_ = c.RegisterFlagCompletionFunc(name, offer) // fails only where there is one already
			}
		}
	}
}

func fixed(words ...string) completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func offerScenario(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func offerFolder(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

func offerStores(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, e := range catalog.Stores().Entries() {
		form := e.New
		if kind, _, rest := strings.Cut(form, ":"); rest {
			form = kind + ":"
		}
		out = append(out, form+"\t"+e.About)
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// offerProfiles are the shipped profiles; where none of them begins so, files.
func offerProfiles(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	for _, name := range scenario.Profiles() {
		if strings.HasPrefix(name, toComplete) {
			return scenario.Profiles(), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// ofScenario offers what the scenario on the command line names; nothing where it does not load.
func ofScenario(what func(s *scenario.Scenario) []string) completer {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if info, err := os.Stat(args[0]); err != nil || !info.Mode().IsRegular() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		src, err := scenario.ReadFile(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, problems := scenario.Load(args[0], src, catalog.Scenario(), scenario.Overrides{AllowPath: true})
		if len(problems) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return what(s), cobra.ShellCompDirectiveNoFileComp
	}
}

func armNames(s *scenario.Scenario) (out []string) {
	for _, a := range s.Arms {
		out = append(out, a.Name)
	}
	return out
}

func paramNames(s *scenario.Scenario) (out []string) {
	for _, p := range s.Params {
		out = append(out, p.Name+"="+p.Value)
	}
	return out
}
