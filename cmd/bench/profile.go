package main

import (
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profileFlags ask for a profile of the process that runs the job: what docs/performance.md was found with.
type profileFlags struct{ cpu string }

func (f *profileFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cpu, "cpuprofile", "", "write a CPU profile of all that runs to `FILE`, for go tool pprof; take one arm by --arm")
}

// start begins the profile, if there is to be one; stop, which is called once, ends it.
func (f *profileFlags) start() (stop func() error, err error) {
	if f.cpu == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(f.cpu)
	if err != nil {
		return nil, usage("--cpuprofile: %v", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
