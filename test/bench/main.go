// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command bench measures the cost of the gateway and compares it with its marks.
//
//	bench -program bin/signalbox                 everything: almost an hour
//	bench -program bin/signalbox -group calls    one group of measurements
//	bench -program bin/signalbox -short          ratios and counts only: minutes
//
// It starts, on loopback and in separate processes, a backend with prepared answers,
// [net/http/httputil.ReverseProxy] in front of it as the yardstick, and the gateway. It
// calls them in turns, round after round, restarts all of them from time to time, and
// reports the median of the rounds. The value to quote is the ratio to the yardstick in the
// same round, because the state of the machine affects both.
//
// The programs that it starts are this one, as the subcommands backend, proxy, hop, relay,
// mint and peer.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the command, or the subcommand that the first argument names.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && isProgram(args[0]) {
		return runProgram(ctx, args[0], args[1:], stdin, stdout, stderr)
	}
	opt, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return drive(ctx, opt, stdout)
}

// options are the command line options.
type options struct {
	program string
	before  string
	groups  string
	short   bool
	starts  int
	scale   float64
	update  string
	json    string
	source  string
	keep    string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.program, "program", "bin/signalbox", "the `PATH` of the gateway's program")
	f.StringVar(&o.before, "before", "", "the `PATH` of another program of the gateway, for the group before")
	f.StringVar(&o.groups, "group", "", "the groups to measure, separated by commas (default all): "+groupNames())
	f.BoolVar(&o.short, "short", false, "measure less, and judge ratios and counts only")
	f.IntVar(&o.starts, "starts", 5, "how often all processes are started")
	f.Float64Var(&o.scale, "scale", 1, "amount of work as a share of the usual one; a run with less than 1 is a trial, not a measurement")
	f.StringVar(&o.update, "update", "", "write the tables and plots into this `PAGE`")
	f.StringVar(&o.json, "json", "", "write all measured values into this `FILE`")
	f.StringVar(&o.source, "source", "../..", "the `FOLDER` of the gateway's source, which is rebuilt for profiling")
	f.StringVar(&o.keep, "keep", "", "write the profiles into this `FOLDER`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return o, nil
}
