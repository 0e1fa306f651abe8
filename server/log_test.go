// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// An error in the log may wake an operator at night. That a client has cancelled its
// request is not logged as one, whatever the Handler returns; that a Handler fails is, also
// if its error looks like a cancellation.
func TestErrorsInTheLog(t *testing.T) {
	tests := []struct {
		name   string
		err    func(ctx context.Context) error
		cancel bool
		want   bool
	}{
		{"cancelled, its context's error", context.Context.Err, true, false},
		{"cancelled, the cause", context.Cause, true, false},
		{"cancelled, wrapped", func(ctx context.Context) error { return fmt.Errorf("asking: %w", ctx.Err()) }, true, false},
		{"cancelled, and broken besides", func(context.Context) error { return errors.New("disk full") }, true, true},
		{"broken", func(context.Context) error { return errors.New("disk full") }, false, true},
		{"a deadline of its own", func(context.Context) error { return context.DeadlineExceeded }, false, true},
		{"a context of its own", func(context.Context) error { return context.Canceled }, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder // written by one goroutine, read after it has ended
			h := tools(map[string]mcp.HandlerFunc{"fail": func(ctx context.Context, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				if tt.cancel {
					<-ctx.Done()
				}
				return nil, tt.err(ctx)
			}})
			pipes(t, h, server.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(c *console) {
				c.send(modern("1", "tools/call", `"name":"fail"`))
				synctest.Wait()
				if tt.cancel {
					c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				}
				synctest.Wait()
			})
			if got := strings.Contains(log.String(), "level=ERROR"); got != tt.want {
				t.Errorf("logged as an error: %v, want %v\n%s", got, tt.want, log.String())
			}
		})
	}
}

// FAULTS 16: a page that may not call leaves one line in the log, with its input sanitized.
// With an Observe function there is an event, and no line is needed.
func TestForeignPagesLeaveOneLine(t *testing.T) {
	watched := 0
	watch := func(context.Context, server.Event) { watched++ }
	for _, tt := range []struct {
		name    string
		header  headers
		observe func(context.Context, server.Event)
		lines   int
		want    string
	}{
		{"host", headers{"Host": "evil.example"}, nil, 1, `level=WARN msg="request refused" event=foreign_host`},
		{"null origin", headers{"Origin": "null"}, nil, 1, `event=foreign_origin principal="" remote=127.0.0.1`},
		{"origin that would colour a terminal", headers{"Origin": "http://\u009b31m.example"}, nil, 1, `detail=http://\u009b31m.example`},
		{"host, watched", headers{"Host": "evil.example"}, watch, 0, ""},
		{"our own", headers{"Origin": "http://localhost"}, nil, 0, ""},
	} {
		var log strings.Builder // written by one goroutine, read after it has ended
		cfg := server.Config{Observe: tt.observe, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		bubble(t, tools(nil), cfg, func(s *site) {
			s.do(s.request(s.ctx(), "POST", raw("1", "ping", ""), tt.header))
		})
		if got := strings.Count(log.String(), "\n"); got != tt.lines || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: %d lines, want %d with %s\n%s", tt.name, got, tt.lines, tt.want, log.String())
		}
	}
	if watched != 1 {
		t.Errorf("%d events were observed, want 1", watched)
	}
}
