// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/counts"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/peer"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/yardstick"
)

// isProgram reports whether a word is the subcommand of a program to be measured.
func isProgram(word string) bool {
	return slices.Contains([]string{"backend", "proxy", "hop", "mint", "relay", "peer"}, word)
}

// programFlags are the flags of a program to be measured.
type programFlags struct {
	to    string
	ways  int
	name  string
	tools int
	idle  time.Duration
	stdio bool
	http  bool
	setup string
}

// runProgram runs one of the programs to be measured until ctx is done.
func runProgram(ctx context.Context, word string, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var p programFlags
	f := flag.NewFlagSet(word, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&p.to, "to", "", "the `URL` of the server behind it")
	f.IntVar(&p.ways, "ways", 1, "how many backends a proxy treats that server as")
	f.StringVar(&p.name, "name", "", "name of the peer")
	f.IntVar(&p.tools, "tools", 0, "number of tools")
	f.DurationVar(&p.idle, "idle", 0, "how long an idle connection is kept; 0 means forever")
	f.BoolVar(&p.stdio, "stdio", false, "serve standard input and output")
	f.BoolVar(&p.http, "http", false, "make a relay serve HTTP instead of standard input and output")
	f.StringVar(&p.setup, "setup", "", "the setup of a backend on stdio, as the query of a URL")
	if err := f.Parse(args); err != nil {
		return err
	}
	if word == "relay" {
		return relay(ctx, p, stdin, stdout, stderr)
	}
	if p.stdio {
		setup, err := canned.ParseSetup(p.setup)
		if err != nil {
			return err
		}
		return canned.ServeStdio(stdin, stdout, setup)
	}
	h, err := handler(word, p, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	return serve(ctx, h, p.idle, stdout)
}

// relay runs between a client and a backend that it starts.
func relay(ctx context.Context, p programFlags, stdin io.Reader, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "backend", "-stdio", "-setup", p.setup) //nolint:gosec // it is this program
	cmd.Stderr = stderr
	if !p.http {
		return yardstick.Relay(cmd, stdin, stdout)
	}
	return yardstick.RelayHTTP(cmd, func(h http.Handler) error { return serve(ctx, h, p.idle, stdout) })
}

// handler returns the handler of a program.
func handler(word string, p programFlags, log *slog.Logger) (http.Handler, error) {
	to, err := url.Parse(p.to)
	if err != nil {
		return nil, err
	}
	switch word {
	case "backend":
		return canned.NewServer(log), nil
	case "proxy":
		return yardstick.Proxy(to, p.ways, log), nil
	case "hop":
		return yardstick.Hop(to), nil
	case "mint":
		return yardstick.Mint(), nil
	case "peer":
		return peer.New(p.name, p.tools)
	}
	return nil, fmt.Errorf("unknown program %q", word)
}

// listenLocal listens on a free port of loopback.
func listenLocal(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

// serve serves a handler on a free port of loopback and prints the address.
func serve(ctx context.Context, h http.Handler, idle time.Duration, stdout io.Writer) error {
	l, err := listenLocal(ctx)
	if err != nil {
		return err
	}
	shown := counts.Handler()
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       idle,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == counts.Path {
				shown.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(w, r)
		}),
	}
	if idle == 0 {
		// Without this an idle connection has only the time limit of a header.
		s.IdleTimeout = time.Hour
	}
	if _, err := fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr()); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
