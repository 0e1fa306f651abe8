// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command goserver is an MCP server built with the Go SDK, for the interop tests.
//
// Without flags it uses standard input and output, in both eras. With -listen it serves two
// HTTP endpoints: /mcp has legacy sessions, /stateless serves the modern era (and legacy
// clients that need no session). It then prints the address of the first on standard error,
// and ends when its standard input does, so that it cannot outlive the test that started
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	listen := flag.String("listen", "", "serve HTTP on this address instead of standard input and output")
	flag.Parse()
	if err := run(context.Background(), *listen); err != nil {
		fmt.Fprintln(os.Stderr, "goserver:", err)
		os.Exit(1)
	}
}

// run serves standard input and output until the client closes them, or serves HTTP until
// its own standard input ends.
func run(ctx context.Context, listen string) error {
	if listen == "" {
		return newServer("stdio").Run(ctx, &mcp.StdioTransport{})
	}
	return serveHTTP(ctx, listen, os.Stdin)
}

// serveHTTP serves until life ends.
func serveHTTP(ctx context.Context, listen string, life io.Reader) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: newMux(), ReadHeaderTimeout: 10 * time.Second}
	// Not waited for: it ends with life, and then ends the server.
	go func() {
		_, _ = io.Copy(io.Discard, life)
		_ = srv.Close()
	}()
	fmt.Fprintf(os.Stderr, "listening on http://%s/mcp\n", ln.Addr())
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newMux offers one server with sessions and one without: the SDK serves the modern era
// over HTTP only without them.
func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/mcp", newEndpoint("sessions", &mcp.StreamableHTTPOptions{}))
	mux.Handle("/stateless", newEndpoint("stateless", &mcp.StreamableHTTPOptions{
		Stateless: true,
		// In the modern era a client cancels by closing the response, which the tools detect
		// only with this option.
		PropagateRequestCancellation: true,
	}))
	return mux
}

// newEndpoint serves one server to all sessions, so that a tool added by one session is
// announced to the others.
func newEndpoint(board string, opts *mcp.StreamableHTTPOptions) http.Handler {
	server := newServer(board)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, opts)
}
