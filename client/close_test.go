// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// What is opened for a client while it closes is closed too, although Close did not see
// it when it listed what to close.
func TestCloseEndsWhatIsOpenedConcurrently(t *testing.T) {
	for name, version := range map[string]mcp.Version{"modern": mcp.LatestModern, "probed": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := make(chan struct{})
				var closed atomic.Int32
				s := &faultyserver.Lines{Modern: true}
				c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
					<-gate // regardless of its context
					a, b := memnet.Pipe(1 << 20)
					go s.Serve(b) // ends when the client closes its end
					return countedClose{a, &closed}, nil
				}, client.Config{Name: "b", Version: version})
				call := launch(t, c, echo(t), &recorder{})
				synctest.Wait()
				ended := make(chan error, 1)
				go func() { ended <- c.Close() }() // ends after the stream was opened and closed
				synctest.Wait()
				close(gate)
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if n := closed.Load(); n != 1 {
					t.Errorf("the stream was closed %d times, want once", n)
				}
				<-call.done // it began before Close, and may have arrived in time or not
			})
		})
	}
}

// The sessions of a closing client are ended concurrently. A server that does not
// answer one DELETE does not delay the others (M163, M164, requirement S7).
//
// S7- 2025-11-25 basic/transports: "The server **MAY** respond to this request with
// HTTP 405 Method Not Allowed, indicating that the server does not allow clients to
// terminate sessions."
func TestM163SessionEndsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStation()
		s.On["DELETE"] = func(x *faultyserver.Exchange) {
			if strings.HasSuffix(x.R.Header.Get("Mcp-Session-Id"), "-3") {
				x.Hold()
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		for i := range 10 {
			scope := mcp.NewScope(fmt.Sprint(i), nil)
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
			defer scope.End()
			t.Cleanup(scope.End)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 6*time.Second || s.Count("DELETE") != 10 {
			t.Errorf("%d goodbyes in %v, want 10 within 6s", s.Count("DELETE"), took)
		}
	})
}
