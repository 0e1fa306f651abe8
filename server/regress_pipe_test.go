// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Pipes.

// M149, I30: a client on pipes that hold one byte writes all its requests before it reads
// anything, while each Handler sends notifications. There is no deadlock.
func TestM149PipesWithoutRoom(t *testing.T) {
	const calls = 40
	h := tools(map[string]mcp.HandlerFunc{"talk": func(ctx ctxType, _ *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
		for range 5 {
			if err := c.Notify(ctx, note(t, "notifications/x", `{}`)); err != nil {
				return nil, err
			}
		}
		return result(`{}`)
	}})
	synctest.Test(t, func(t *testing.T) {
		client, srv := memnet.Pipe(1)
		s := server.New(h, server.Config{})
		done := make(chan error, 1)
		go func() { // ends with the pipe
			done <- s.ServeStdio(t.Context(), srv, srv)
			_ = srv.CloseWrite()
		}()
		go func() { // ends when all is written
			for i := range calls {
				_, _ = io.WriteString(client, modern(fmt.Sprint(i), "tools/call", `"name":"talk"`)+"\n")
			}
			_ = client.CloseWrite()
		}()
		answers := map[string]int{}
		lines := bufio.NewScanner(client)
		for lines.Scan() {
			if _, after, ok := strings.Cut(lines.Text(), `"id":`); ok {
				id, _, _ := strings.Cut(after, ",")
				answers[id]++
			}
		}
		for i := range calls {
			if got := answers[fmt.Sprint(i)]; got != 1 {
				t.Errorf("request %d has %d answers, want 1", i, got)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("ServeStdio = %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// noReader is the writing end of a pipe without a reader.
type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// M159: if a client stops reading, the pipe ends although the client still writes. Its
// requests end, what it writes meanwhile breaks nothing, and ServeStdio returns the cause.
func TestM159BrokenPipe(t *testing.T) {
	ended := make(chan error, 1)
	h := tools(map[string]mcp.HandlerFunc{"wait": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}})
	synctest.Test(t, func(t *testing.T) {
		s := server.New(h, server.Config{})
		in, client := memnet.Pipe(memnet.DefaultBuffer)
		defer client.Close()
		done := make(chan error, 1)
		go func() { done <- s.ServeStdio(t.Context(), in, noReader{}) }() // ends when the writer fails
		lines := []string{modern("1", "tools/call", `"name":"wait"`), raw("2", "ping", ""), raw("3", "ping", ""), raw("4", "ping", "")}
		if _, err := io.WriteString(client, strings.Join(lines, "\n")+"\n"); err != nil {
			t.Fatal(err)
		}
		err := <-done
		if !errors.Is(err, syscall.EPIPE) || !strings.HasPrefix(err.Error(), "the client no longer reads: ") {
			t.Errorf("ServeStdio = %v, want that the client no longer reads", err)
		}
		if err := <-ended; err == nil {
			t.Error("the call went on without a client")
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// M200, D1: text between messages, and a last line without a line feed, lose no message.
func TestM200Lines(t *testing.T) {
	pipesGated(t, server.Config{Limits: server.Limits{RequestBody: 1 << 10}}, func(c *console, _ *gate) {
		ping := func(id string) string { return raw(id, "ping", "") }
		text := "\r\n\n" + ping("1") + "\r\n" + "log: started\n" + strings.Repeat("x", 10<<10) + "\n" + ping("2") + "\n" + ping("3") // no line feed
		if _, err := io.WriteString(c.conn, text); err != nil {
			t.Fatal(err)
		}
		c.closeInput()
		want := []string{`"id":1,"result"`, `"code":-32700`, `line exceeds 1 KiB`, `"id":2,"result"`, `"id":3,"result"`}
		for _, w := range want {
			if got := c.next(); !strings.Contains(got, w) {
				t.Errorf("line %s; want %s in it", got, w)
			}
		}
		c.wantEnd()
	})
}

// M137, I26: the end of a pipe waits for the Handler, which returns once its context ends,
// and not for its client.
func TestM153EndWaitsForHandlers(t *testing.T) {
	finished := false
	h := tools(map[string]mcp.HandlerFunc{"tidy": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		<-ctx.Done()
		sleep(time.Second) // the Handler tidies up
		finished = true
		return nil, context.Cause(ctx)
	}})
	pipes(t, h, server.Config{}, func(c *console) {
		c.send(modern("1", "tools/call", `"name":"tidy"`))
		synctest.Wait()
		start := time.Now()
		c.cancel()
		if err := <-c.done; !errors.Is(err, context.Canceled) {
			t.Errorf("ServeStdio = %v", err)
		}
		if d := time.Since(start); !finished || d != time.Second {
			t.Errorf("it ended after %v, the Handler has finished: %t; want 1s and true", d, finished)
		}
	})
}
