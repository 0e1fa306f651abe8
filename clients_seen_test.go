// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Clients that list something are seen, also if the list needs no goroutine. A client that
// says nothing about itself is not, and neither is one that does something else.
func TestClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, err := New(config.Config{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		list := func(info string, now bool) {
			t.Helper()
			req, err := mcp.NewRequest("tools/list", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Client = &mcp.Peer{Version: mcp.V20260728}
			if info != "" {
				req.Client.Info = []byte(info)
			}
			if now {
				if _, ok := g.ServeNow(req); !ok {
					t.Fatal("the list was not answered at once")
				}
			} else if _, err := g.Serve(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // of the bubble
		}
		start := time.Now()
		list(`{"name":"cursor","version":"1"}`, false)
		list(`{"name":"zed","version":"2"}`, true)
		list(`{"name":"cursor","version":"1"}`, true)
		list("", false)
		list(`{"name":"`+strings.Repeat("x", maxClientInfo)+`"}`, false)
		want := []ClientStatus{
			{"cursor", "1", mcp.V20260728, start, start.Add(2 * time.Second)},
			{"zed", "2", mcp.V20260728, start.Add(time.Second), start.Add(time.Second)},
		}
		if diff := cmp.Diff(want, g.Clients()); diff != "" {
			t.Error(diff)
		}
		for i := range 2 * maxClientsSeen {
			list(fmt.Sprintf(`{"name":"%d"}`, i), true)
		}
		if got := len(g.Clients()); got != maxClientsSeen {
			t.Errorf("%d clients are kept, want %d", got, maxClientsSeen)
		}
	})
}
