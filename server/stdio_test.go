// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/memnet"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// console is a client on a pipe.
type console struct {
	t      *testing.T
	server *server.Server
	conn   *memnet.Conn
	lines  *bufio.Scanner
	done   chan error
	cancel context.CancelFunc
}

// pipes runs f in a bubble with a client on a pipe, and ends it afterwards.
func pipes(t *testing.T, h mcp.Handler, cfg server.Config, f func(*console)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		client, srv := memnet.Pipe(memnet.DefaultBuffer)
		ctx, cancel := context.WithCancel(t.Context())
		c := &console{t: t, server: server.New(h, cfg), conn: client, lines: bufio.NewScanner(client), done: make(chan error, 1), cancel: cancel}
		c.lines.Buffer(nil, 16<<20)
		go func() { // ends with the pipe or ctx
			err := c.server.ServeStdio(ctx, srv, srv)
			_ = srv.CloseWrite()
			c.done <- err
		}()
		f(c)
		cancel()
		_ = client.Close()
		if err := c.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
	})
}

func (c *console) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(c.conn, l+"\n"); err != nil {
			c.t.Fatalf("writing %s: %v", l, err)
		}
	}
}

func (c *console) next() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("no more lines: %v", c.lines.Err())
	}
	return c.lines.Text()
}

func (c *console) expect(want string) {
	c.t.Helper()
	equal(c.t, "line", c.next(), want)
}

// closeInput says that the client has said everything, and checks that the
// server ends the pipe.
func (c *console) closeInput() {
	c.t.Helper()
	if err := c.conn.CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) ended() {
	c.t.Helper()
	if c.lines.Scan() {
		c.t.Errorf("after the end: %s", c.lines.Text())
	}
	if err := <-c.done; err != nil {
		c.t.Errorf("ServeStdio = %v, want nil", err)
	}
}

func (c *console) handshake() {
	c.t.Helper()
	c.send(initialize)
	if got := c.next(); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		c.t.Fatalf("initialize: %s", got)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestStdioBothEras(t *testing.T) {
	h := tools(map[string]mcp.HandlerFunc{"echo": quick(`{"content":[],"resultType":"complete"}`)})
	pipes(t, h, server.Config{}, func(c *console) {
		c.send(modern("1", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[],"resultType":"complete"}}`)
		c.handshake()
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`)
		c.expect(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
		c.send(modern("3", "tools/call", `"name":"echo"`))
		c.expect(`{"jsonrpc":"2.0","id":3,"result":{"content":[],"resultType":"complete"}}`)
		c.closeInput()
		c.ended()
	})
}
