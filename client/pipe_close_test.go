// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// A request without a session borrows a process, which is ended when the request is
// cancelled. The server receives the cancellation before its pipe closes.
func TestCancelledBeforeThePipeCloses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){"tools/call": func(*faultyserver.Line) {}}}
		c, _ := dialLines(t, s, client.Config{})
		call := launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		call.cancel()
		synctest.Wait()
		if n := s.Count("notifications/cancelled"); n != 1 {
			t.Errorf("%d cancellations, want 1", n)
		}
	})
}

// countedClose is a stream that counts how often it is closed.
type countedClose struct {
	io.ReadWriteCloser
	closed *atomic.Int32
}

func (c countedClose) Close() error {
	c.closed.Add(1)
	return c.ReadWriteCloser.Close()
}

// A stream that a caller has opened is closed once, whichever side ends first:
// io.Closer does not define a second Close.
func TestStreamIsClosedOnce(t *testing.T) {
	for name, theyEnd := range map[string]bool{"by us": false, "by the server": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var opened, closed atomic.Int32
				var far io.Closer
				s := &faultyserver.Lines{Modern: true}
				c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
					opened.Add(1)
					a, b := memnet.Pipe(1 << 20)
					far = b
					go s.Serve(b) // ends when either end is closed, at the latest by Close below
					return countedClose{a, &closed}, nil
				}, client.Config{Name: "b"})
				if _, err := within(t, c, echo(t), &recorder{}); err != nil {
					t.Fatal(err)
				}
				if theyEnd {
					far.Close()
					synctest.Wait()
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if opened.Load() != 1 || closed.Load() != 1 {
					t.Errorf("%d streams opened and closed %d times, want each once", opened.Load(), closed.Load())
				}
			})
		})
	}
}
