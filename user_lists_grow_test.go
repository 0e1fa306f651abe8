// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Of users that come and go, with sessions and without, nothing is left ten minutes later, also of
// those without access to any backend. A session counts once, however many requests it has.
func TestNothingIsKeptOfUsersThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(config.Config{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}()
		kept := func() (users, principals int) {
			l := g.userLists
			l.mu.RLock()
			defer l.mu.RUnlock()
			return l.count, len(l.users)
		}
		const users = 500
		var last *mcp.Scope
		for i := range users {
			scope := mcp.NewScope("s", nil)
			for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
				c := viewer{Client: backend.Client{Principal: fmt.Sprint("user", i), Peer: &mcp.Peer{Capabilities: []byte(capabilities)}}}
				for range 3 {
					u := g.userLists.add(c)
					if capabilities != `{}` {
						continue
					}
					if u.holdFor(scope); u.sessions != 1 {
						t.Fatalf("%d sessions of a user with one", u.sessions)
					}
				}
			}
			if last = scope; i < users-1 {
				time.AfterFunc(time.Duration(i)*time.Second, scope.End)
			}
		}
		if n, principals := kept(); n != 2*users || principals != users {
			t.Fatalf("%d users of %d principals are kept, want %d of %d", n, principals, 2*users, users)
		}
		time.Sleep(users*time.Second + forgetAfter + keepInterval)
		if n, principals := kept(); n != 1 || principals != 1 {
			t.Errorf("%d users of %d principals are kept, want the one with a session", n, principals)
		}
		last.End()
		time.Sleep(forgetAfter + keepInterval)
		g.userLists.mu.RLock()
		defer g.userLists.mu.RUnlock()
		if l := g.userLists; l.count != 0 || len(l.users) != 0 || l.keeping {
			t.Errorf("%d users of %d principals are kept, keep runs: %t", l.count, len(l.users), l.keeping)
		}
	})
}
