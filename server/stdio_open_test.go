// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// slowOpening is a Handler with a server/discover that takes that long, and may then fail.
func slowOpening(takes time.Duration, err error) mcp.Handler {
	rest := tools(map[string]mcp.HandlerFunc{"echo": fixedResult(`{}`), "slow": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		select {
		case <-time.After(500 * time.Millisecond):
			return result(`{"slow":true}`)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		if req.Method != "server/discover" {
			return rest.Serve(ctx, req, c)
		}
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		return result(discovered)
	})
}

func callEcho(id string) string { return raw(id, "tools/call", `{"name":"echo"}`) }

func echoed(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// readAll returns the lines until the end of the pipe, and checks that it ends without an
// error.
func (c *console) readAll() []string {
	c.t.Helper()
	var lines []string
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	if err := <-c.done; err != nil {
		c.t.Errorf("ServeStdio = %v, want nil", err)
	}
	return lines
}

// A client that sends all its messages and closes its input receives all its answers, that
// of initialize first.
func TestStdioPipelined(t *testing.T) {
	for _, takes := range []time.Duration{0, 600 * time.Millisecond} {
		pipes(t, slowOpening(takes, nil), server.Config{}, func(c *console) {
			start := time.Now()
			c.send(initialize, initialized, callEcho("1"), raw("2", "tools/call", `{"name":"slow"}`), callEcho("3"))
			c.closeInput()
			got := c.readAll()
			if len(got) != 4 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion"`) {
				t.Fatalf("%q; want the answer of initialize and three more", got)
			}
			slices.Sort(got[1:])
			equal(t, "answers", strings.Join(got[1:], "\n"), echoed("1")+"\n"+`{"jsonrpc":"2.0","id":2,"result":{"slow":true}}`+"\n"+echoed("3"))
			if d, want := time.Since(start), takes+500*time.Millisecond; d != want {
				t.Errorf("it took %v; want %v for initialize and the slow call", d, want)
			}
		})
	}
}

// An answer without a Handler is also written before the pipe ends.
func TestStdioPingAndEnd(t *testing.T) {
	for range 20 {
		pipes(t, tools(nil), server.Config{}, func(c *console) {
			c.send(raw("1", "ping", ""), `junk`)
			c.closeInput()
			if got := c.readAll(); len(got) != 2 || got[0] != echoed("1") || !strings.Contains(got[1], "-32700") {
				t.Fatalf("%q; want the answer of a ping and an error", got)
			}
		})
	}
}

// While a session opens, messages that do not depend on it are served.
func TestStdioServesWhileOpening(t *testing.T) {
	pipes(t, slowOpening(time.Hour, nil), server.Config{}, func(c *console) {
		c.send(initialize, callEcho("1"), raw("2", "ping", ""), modern("3", "tools/call", `"name":"echo"`))
		c.expect(echoed("2"))
		c.expect(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}`)
		if got := c.next(); !strings.Contains(got, `"protocolVersion"`) {
			t.Errorf("%s; want the answer of initialize", got)
		}
		c.expect(echoed("1"))
	})
}

// An initialize that is still running after the client has ended is cancelled after a
// moment, and nothing is written to a client that has left.
func TestStdioOpeningThatHangs(t *testing.T) {
	pipes(t, slowOpening(time.Hour, nil), server.Config{}, func(c *console) {
		start := time.Now()
		c.send(initialize, initialized, callEcho("1"))
		c.closeInput()
		if got := c.readAll(); len(got) != 0 {
			t.Errorf("%q; want nothing", got)
		}
		if d := time.Since(start); d != 1200*time.Millisecond {
			t.Errorf("the end took %v, want 1.2s", d)
		}
	})
}

// Messages that were queued for a session that did not open are answered as if they had
// arrived before any initialize; another initialize is possible.
func TestStdioOpeningThatFails(t *testing.T) {
	pipes(t, slowOpening(time.Second, mcp.Errorf(7, "no")), server.Config{}, func(c *console) {
		c.send(initialize, initialized, callEcho("1"), strings.Replace(initialize, `"id":0`, `"id":5`, 1), callEcho("2"))
		c.expect(wireError("0", "7", "no"))
		if got := c.next(); !strings.Contains(got, `"id":1`) || !strings.Contains(got, "session not initialized") {
			t.Errorf("%s; want that the session is not initialized", got)
		}
		c.expect(wireError("5", "7", "no"))
		if got := c.next(); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "session not initialized") {
			t.Errorf("%s; want that the session is not initialized", got)
		}
	})
}

// The number of queued messages has the same bound as that of requests in flight.
func TestStdioQueueIsBounded(t *testing.T) {
	cfg := server.Config{Limits: server.Limits{InFlightPerSession: 3}}
	pipes(t, slowOpening(time.Hour, nil), cfg, func(c *console) {
		c.send(initialize)
		for i := range 5 {
			c.send(callEcho(strconv.Itoa(i + 1)))
		}
		for _, id := range []string{"4", "5"} {
			if got := c.next(); !strings.Contains(got, `"id":`+id) || !strings.Contains(got, "3 requests in flight (limits.inFlightPerSession)") {
				t.Errorf("%s; want that there are too many", got)
			}
		}
		c.next()
		got := []string{c.next(), c.next(), c.next()}
		slices.Sort(got)
		equal(t, "held", strings.Join(got, "\n"), echoed("1")+"\n"+echoed("2")+"\n"+echoed("3"))
	})
}

// Queued messages keep their order: a cancel follows its request, and a batch stays a
// batch.
func TestStdioQueueKeepsOrder(t *testing.T) {
	pipes(t, slowOpening(time.Second, nil), server.Config{}, func(c *console) {
		c.send(opening("2025-03-26"), initialized, raw("1", "tools/call", `{"name":"slow"}`),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `[`+callEcho("2")+`]`)
		c.closeInput()
		if got := c.readAll(); len(got) != 2 || got[1] != echoed("2") {
			t.Errorf("%q; want the answers of initialize and of the batch", got)
		}
	})
}
