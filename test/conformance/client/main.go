// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client is the client that the conformance suite judges: a program of
// package client, and an example of one. The suite starts it once for each of its
// scenarios, with the address of a server of its own as the last argument, and
// judges what arrives there.
//
// It is the same program for servers of every revision: that a server wants a
// session, or none, package client finds out by itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
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
	all := scenarios()
	play, ok := all[getenv(envScenario)]
	switch {
	case len(args) != 1:
		return errors.New("the one argument is the URL of the server")
	case !ok:
		return fmt.Errorf("%s=%q is none of %s", envScenario, getenv(envScenario),
			strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	s := connect(args[0], getenv(envContext))
	defer s.close()
	return play(ctx, s)
}
