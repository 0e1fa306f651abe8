// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// laterServer answers each request a second late.
type laterServer struct{ *toolServer }

func (s laterServer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	select {
	case <-time.After(time.Second):
		return s.toolServer.Serve(ctx, req, caller)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A Backend names what it waits for, and since when, from its first moment to its first
// lists.
func TestAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		wait := func(ctx context.Context) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		b, _ := follow(t, laterServer{newToolServer(false, "a")}, Config{
			Sole: func(ctx context.Context) (Client, bool) {
				wait(ctx)
				return Client{}, true
			},
			Turn: func(ctx context.Context) func() {
				wait(ctx)
				return func() {}
			},
		})
		for i, want := range []Awaited{AwaitsClient, AwaitsTurn, AwaitsResponse, AwaitsLists} {
			time.Sleep(500 * time.Millisecond)
			what, since := b.Awaits()
			if after := time.Duration(i) * time.Second; what != want || since.Sub(begin) != after {
				t.Errorf("awaits %d since %v, want %d since %v", what, since.Sub(begin), want, after)
			}
			if b.Offer().State != Starting {
				t.Errorf("state %v", b.Offer().State)
			}
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if b.Offer().State != Live {
			t.Errorf("state %v, want live", b.Offer().State)
		}
	})
	if what, _ := New(Config{}).Awaits(); what != AwaitsNothing {
		t.Errorf("awaits %d before Run", what)
	}
}
