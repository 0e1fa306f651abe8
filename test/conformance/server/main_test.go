// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The fixture prints its address, serves clients of both eras, and ends on the signal.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	output, out := io.Pipe()
	over := make(chan error, 1)
	go func() { // ends with ctx, below
		err := run(ctx, "127.0.0.1:0", "", "knots", out, slog.New(slog.DiscardHandler))
		_ = out.CloseWithError(err) // unblocks the reader
		over <- err
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	if !ok || !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/mcp") {
		t.Fatalf("it says %q", line)
	}
	for _, v := range []mcp.Version{mcp.LatestLegacy, mcp.LatestModern} {
		c := client.NewHTTP(url, client.Config{Version: v})
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"greet","arguments":{"name":"Ada"}}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Serve(t.Context(), req, nil)
		if err != nil || string(res.Raw(mcp.FieldContent)) != `[{"type":"text","text":"Hello, Ada!"}]` {
			t.Errorf("%s: %v, %v", v, res, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
