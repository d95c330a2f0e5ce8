package main

import (
	"io"

	"statebench.dev/bench/internal/catalog"
	"statebench.dev/bench/internal/scenario"

	"github.com/spf13/cobra"
)

func newSchema(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of scenario files",
		Long: "schema prints the JSON Schema (draft 2020-12) of scenario files, with the options of every workload and fault. An editor that\n" +
			"has it completes keys and marks what is wrong; each shipped scenario names it in its first lines. What several places\n" +
			"of a file say together, and other files, only `bench plan` looks at.",
		Example: "  bench schema > scenarios/scenario.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := stdout.Write(scenario.Schema(catalog.Scenario()))
			return err
		},
	}
}
