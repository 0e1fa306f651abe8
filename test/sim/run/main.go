// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command run runs schedules of the simulator: many in a row, or the one of a seed with its
// transcript.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program and returns its exit status.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(errs)
	seed := flags.Uint64("seed", 0, "show the schedule of this seed")
	first := flags.Uint64("first", 1, "the seed of the first schedule of many")
	n := flags.Uint64("n", 0, "run this many schedules")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "number of concurrent workers")
	quick := flags.Bool("quick", false, "report only the number of schedules until a failure")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *n == 0 {
		return show(*seed, out)
	}
	began := time.Now()
	stats, failure := sim.Many(*first, *n, *workers, !*quick)
	if failure != nil {
		fmt.Fprintf(out, "%s\ncaught after %d schedules\n", failure, failure.Nth+1)
		return 1
	}
	fmt.Fprintf(out, "%sall well after %s\n", &stats, time.Since(began).Round(time.Millisecond))
	return 0
}

// show prints the transcript of a schedule, or the report of its failure.
func show(seed uint64, out io.Writer) int {
	transcript, failure := sim.Run(seed)
	if failure != nil {
		fmt.Fprint(out, failure)
		return 1
	}
	fmt.Fprintf(out, "%s\n\nseed %d: all well\n", strings.Join(transcript, "\n"), seed)
	return 0
}
