// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command server is the fixture of the official conformance suite: a server built with this
// library that has everything that the suite asks for, for clients of every revision at one
// URL. It is also an example of a server.
//
//	go run ./server -addr 127.0.0.1:0
//
// It prints its address on standard output, in one line, and ends when its standard input
// ends, or on SIGTERM.
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
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "listen address")
	era := flag.String("era", "", "serve only this `era`, legacy or modern; default both")
	skill := flag.String("skill", "knots", "the `name` of the skill; empty for no skill")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with standard input, or with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, *addr, *era, *skill, os.Stdout, logger); err != nil {
		logger.ErrorContext(ctx, "server failed", slog.Any("error", err))
		os.Exit(1)
	}
}

// run serves until the context ends, and prints the address to out.
func run(ctx context.Context, addr, era, skill string, out io.Writer, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &mux.Mux{Name: "signalbox-conformance", Version: "1", Instructions: "What the conformance suite asks for, and nothing of use."}
	defer func() { _ = m.Close() }() // returns when the last task has ended
	if err := m.Add(items(m)...); err != nil {
		return err
	}
	var served mcp.Handler = m
	if skill != "" {
		with := skills{m, skill}
		if err := m.Add(with.items()...); err != nil {
			return err
		}
		served = with
	}
	s := server.New(served, server.Config{Logger: logger})
	defer func() { _ = s.Shutdown(ctx) }() // the same for requests: ctx has ended, or serving has failed
	endpoint, err := only(era, s)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	h := http.NewServeMux()
	h.Handle("/mcp", endpoint)
	hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = hs.Close() })()
	go watch(ctx, m) // ends with ctx
	if _, err := fmt.Fprintf(out, "listening on http://%s/mcp\n", ln.Addr()); err != nil {
		return err
	}
	if err := hs.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// items returns everything that the suite asks for.
func items(m *mux.Mux) []mux.Item {
	var all []mux.Item
	for _, some := range [][]mux.Item{
		contentTools(), reportingTools(), askingTools(), inputTools(), changingTools(m), taskTools(),
		resources(), prompts(),
	} {
		all = append(all, some...)
	}
	return all
}
