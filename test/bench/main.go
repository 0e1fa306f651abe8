// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// The command bench measures what the gateway costs, and holds it against its marks.
//
//	bench -program bin/signalbox                 everything: three quarters of an hour
//	bench -program bin/signalbox -group calls    one group of measurements
//	bench -program bin/signalbox -short          ratios and counts only: minutes
//
// It starts, on loopback and as processes of their own, a backend whose answers are
// prepared, [net/http/httputil.ReverseProxy] in front of it as the yardstick, and the
// gateway; calls them in turns, round after round, and starts all of them anew from
// time to time; and reports the median of the rounds. What is quoted is a ratio to the
// yardstick in the same round: what a machine does at the time is in both.
//
// The programs that it starts are this one, under the names of the subcommands
// backend, proxy, hop, relay, mint and peer.
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

// run is the command, or the subcommand that the first argument names.
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

// options are what the command line says.
type options struct {
	program string
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
	f.StringVar(&o.groups, "group", "", "the groups to measure, separated by commas; without it all of them: "+groupNames())
	f.BoolVar(&o.short, "short", false, "measure little, and judge ratios and counts only")
	f.IntVar(&o.starts, "starts", 5, "how often everything is started")
	f.Float64Var(&o.scale, "scale", 1, "how much of everything, as a share of what is usual: with less than 1 it is a try, not a measurement")
	f.StringVar(&o.update, "update", "", "write the tables and plots into this `PAGE`")
	f.StringVar(&o.json, "json", "", "write all that was measured into this `FILE`")
	f.StringVar(&o.source, "source", "../..", "the `FOLDER` of the gateway's source, which is built anew to be profiled")
	f.StringVar(&o.keep, "keep", "", "write the profiles into this `FOLDER`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return o, nil
}
