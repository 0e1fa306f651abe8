// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client is the client that the conformance suite judges: a program of
// package client, and an example of one. The suite starts it once for each of its
// scenarios, with the address of a server of its own as the last argument, and
// judges what arrives there.
//
// It is the same program for servers of every revision: that a server wants a
// session, or none, package client finds out by itself. With -revision it is told,
// which the suite does not need: behind a gateway that serves all revisions it makes
// a client of an earlier one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// What the suite says in the environment.
const (
	envScenario = "MCP_CONFORMANCE_SCENARIO"
	envContext  = "MCP_CONFORMANCE_CONTEXT" // what only this scenario needs, as JSON
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:gocritic // nothing is left for stop to undo
	}
}

// run plays the scenario of the environment with the server at the URL.
func run(ctx context.Context, args []string, getenv func(string) string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	revision := flags.String("revision", "", "speak this `revision` of the protocol, instead of finding out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all := scenarios()
	play, ok := all[getenv(envScenario)]
	switch {
	case flags.NArg() != 1:
		return errors.New("the one argument is the URL of the server")
	case *revision != "" && mcp.Version(*revision).Era() == mcp.EraUnknown:
		return fmt.Errorf("-revision %q is none that is known", *revision)
	case !ok:
		return fmt.Errorf("%s=%q is none of %s", envScenario, getenv(envScenario),
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	s := connect(flags.Arg(0), mcp.Version(*revision), getenv(envContext))
	defer s.close()
	return play(ctx, s)
}
