// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client is the client for the conformance suite: a program of package client, and
// an example of one. The suite starts it once for each of its scenarios, with the address
// of its own server as the last argument, and judges what arrives there.
//
// The same program is used for servers of every revision: package client detects whether a
// server uses sessions. The flag -revision selects a revision. The suite does not need it,
// but behind a gateway that serves all revisions it makes a client of an earlier one.
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

// The environment variables of the suite.
const (
	envScenario = "MCP_CONFORMANCE_SCENARIO"
	envContext  = "MCP_CONFORMANCE_CONTEXT" // additional data of the scenario, as JSON
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
	revision := flags.String("revision", "", "use this `revision` of the protocol instead of detecting it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, name := scenarios(), getenv(envScenario)
	play, ok := all[name]
	if isAuthorization(name) {
		play, ok = useAccount, true
	}
	switch {
	case flags.NArg() != 1:
		return errors.New("want one argument, the URL of the server")
	case *revision != "" && mcp.Version(*revision).Era() == mcp.EraUnknown:
		return fmt.Errorf("unknown revision %q", *revision)
	case !ok:
		return fmt.Errorf("%s=%q is unknown; known are auth/*, %s", envScenario, name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	credentials, err := credentialsFor(name, flags.Arg(0), getenv(envContext), dir)
	if err != nil {
		return err
	}
	if c, ok := credentials.(interface{ Close() }); ok {
		defer c.Close()
	}
	s := connect(flags.Arg(0), mcp.Version(*revision), getenv(envContext), credentials)
	defer s.close()
	return play(ctx, s)
}
