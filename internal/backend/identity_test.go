// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The listen for the lists of a user ends with the credentials that it is for, and begins again with later
// ones; the lists stay (requirement N14).
func TestListenEndsWithItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Pointer[mcp.Identity]
		begin, open := time.Now(), make(chan *mcp.Identity, 100)
		ends := make(chan time.Duration, 100)
		h := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, c mcp.Caller) (*mcp.Result, error) {
			if id := req.Identity; id.Expires.Compare(time.Now()) <= 0 {
				return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.NotDispatched, Message: "the token has expired"}
			}
			switch req.Method {
			case "server/discover":
				return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}`))
			case "tools/list":
				return mcp.NewResult([]byte(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`))
			}
			n, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
			if err != nil || c.Notify(ctx, n) != nil {
				t.Errorf("no acknowledgement: %v", err)
			}
			open <- req.Identity
			<-ctx.Done()
			ends <- time.Since(begin)
			return nil, ctx.Err()
		})
		present := func(life time.Duration) *mcp.Identity {
			id := &mcp.Identity{Principal: "ann", Expires: time.Now().Add(life)}
			known.Store(id)
			return id
		}
		first := present(time.Minute)
		b := backend.New(backend.Config{Name: "crm", Handler: h, Principal: "ann", Identity: known.Load})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); b.Run(ctx) }() // ends with ctx; waited for below
		if id := <-open; id != first {
			t.Errorf("the listen is for %+v", id)
		}
		time.Sleep(10 * time.Minute)
		if len(ends) != 1 || <-ends != time.Minute || len(open) > 0 {
			t.Errorf("without credentials, %d listens have ended and %d begun", len(ends), len(open))
		}
		if o := b.Offer(); len(o.Lists[0].Items) != 1 {
			t.Errorf("offered is %+v", o)
		}
		second := present(time.Hour)
		b.Retry()
		if id := <-open; id != second {
			t.Errorf("the next listen is for %+v", id)
		}
		cancel()
		<-done
	})
}
