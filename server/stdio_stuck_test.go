// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// standardStream is a stream with a Close that does not end a blocked read or write, like
// the standard streams of a process.
type standardStream struct {
	released chan struct{} // ends blocked calls
}

func (s standardStream) Read([]byte) (int, error) {
	<-s.released
	return 0, io.EOF
}

func (s standardStream) Write([]byte) (int, error) {
	<-s.released
	return 0, io.ErrClosedPipe
}

func (standardStream) Close() error { return nil }

// I26: the end of a pipe is bounded although neither reading nor writing can be
// interrupted. A process that is asked to end by a signal must not wait until its parent
// writes or reads once more.
func TestStdioEndsOnStandardStreams(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	tests := []struct {
		name string
		open func(stuck standardStream) (io.Reader, io.Writer)
		most time.Duration
	}{
		{"a parked read", func(stuck standardStream) (io.Reader, io.Writer) { return stuck, io.Discard }, time.Second},
		{"a parked write", func(stuck standardStream) (io.Reader, io.Writer) {
			in, client := memnet.Pipe(memnet.DefaultBuffer)
			_, _ = io.WriteString(client, ask) // fits into the buffer
			return in, stuck
		}, 3 * time.Second},
		{"both", func(stuck standardStream) (io.Reader, io.Writer) {
			return io.MultiReader(strings.NewReader(ask), stuck), stuck
		}, 3 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := standardStream{make(chan struct{})}
				r, w := tt.open(stuck)
				s := server.New(tools(nil), server.Config{})
				done := make(chan error, 1)
				go func() { done <- s.ServeStdio(t.Context(), r, w) }() // ends with the server
				synctest.Wait()
				begun := time.Now()
				if err := s.Shutdown(t.Context()); err != nil {
					t.Errorf("Shutdown = %v", err)
				}
				if err := <-done; err == nil {
					t.Error("ServeStdio = nil, want that the server shuts down")
				}
				if took := time.Since(begun); took > tt.most {
					t.Errorf("the end took %v, want at most %v", took, tt.most)
				}
				close(stuck.released)
			})
		})
	}
}

// The end of its input ends a server, even if a Handler does not return and the remaining
// output is not read.
//
// D4- 2026-07-28 basic/transports/stdio: "This is the primary graceful-shutdown signal
// and the only portable one, so honoring it reduces the need for forced termination."
func TestStdioEndsWithItsInput(t *testing.T) {
	for _, ask := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, modern("1", "tools/call", `"name":"wait"`)} {
		synctest.Test(t, func(t *testing.T) {
			stuck := standardStream{make(chan struct{})}
			s := server.New(tools(map[string]mcp.HandlerFunc{"wait": func(ctx ctxType, _ *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}), server.Config{})
			done := make(chan error, 1)
			begun := time.Now()
			go func() { done <- s.ServeStdio(t.Context(), strings.NewReader(ask+"\n"), stuck) }() // ends by itself, or with what is stuck
			select {
			case err := <-done:
				if took := time.Since(begun); err != nil || took > 5*time.Second {
					t.Errorf("%s: ServeStdio = %v after %v, want nil within 5s", ask, err, took)
				}
				close(stuck.released)
			case <-time.After(time.Hour):
				t.Errorf("%s: ServeStdio goes on an hour after the end of its input", ask)
				close(stuck.released)
				<-done
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
	}
}

// I21: a client on a pipe that sends requests and does not read is not served for ever.
// What is queued for it is bounded, however much it sends.
func TestStdioFloodWithoutReading(t *testing.T) {
	pipes(t, tools(nil), server.Config{}, func(c *console) {
		taken := 0
		for range 20_000 {
			line := modern(strconv.Itoa(taken), "tools/list", "") + "\n"
			_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := io.WriteString(c.conn, line); err != nil {
				break
			}
			taken++
		}
		if got := c.server.Stats().Requests; got > 5_000 {
			t.Errorf("%d requests were served to a client that reads none of the answers", got)
		}
	})
}
