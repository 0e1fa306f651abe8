// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A list does not depend on the connection: after the first connections with some capabilities, a
// server is not asked for its tools again, whether those that follow are of one principal or of
// several, and each list is built once for all that see the same (identity I5).
func TestListsOfManyConnections(t *testing.T) {
	const connections = 100
	for _, names := range [][]string{{"ann"}, {"ann", "bob", "cid", "dan"}} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d principals, modern server %t", len(names), modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := gatewaytest.ServerWithTools(modern, "ask", "read")
					g := gatewaytest.Backends{"b": s}.Open(t, func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, names...) })
					time.Sleep(time.Minute) // the lists are known
					seen, asked := map[string]bool{}, 0
					for i := range connections {
						sender := gatewaytest.WithToken(names[i%len(names)])
						var got string
						if i%2 == 0 {
							got = g.Post(gatewaytest.LegacyRequest("1", "tools/list", ""), g.Legacy(sender)).Body
						} else {
							got = g.PostModern("1", "tools/list", "", "", sender).Body
						}
						if !strings.Contains(got, `"name":"b__read"`) {
							t.Fatalf("connection %d: %s", i, got)
						}
						seen[fmt.Sprint(i%2, got)] = true
						if i == 1 { // one of each kind
							synctest.Wait()
							asked = s.Count("tools/list")
						}
					}
					if len(seen) != 2 { // one for each era
						t.Errorf("%d lists: %v", len(seen), seen)
					}
					if n := s.Count("tools/list"); n != asked {
						t.Errorf("the server was asked %d times for its tools, %d of them by the first connections", n, asked)
					}
				})
			})
		}
	}
	t.Run("with a policy", func(t *testing.T) {
		g, _ := withPolicy(t, officeRules(), nil)
		lists := map[string]map[*byte]bool{"staff": {}, "staff boss": {}}
		for i := range connections {
			for groups, seen := range lists {
				req := requestOf(t, person(fmt.Sprint("p", i%7), groups), "tools/list", `{}`)
				req.Scope = mcp.NewScope(fmt.Sprint(i), nil)
				res, err := g.Serve(t.Context(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(res.Bytes()); strings.Contains(got, "office__secret") != (groups == "staff boss") {
					t.Fatalf("%s: %s", groups, got)
				}
				seen[&res.Bytes()[0]] = true
				req.Scope.End()
			}
		}
		for groups, seen := range lists {
			if len(seen) != 1 {
				t.Errorf("%s: %d lists for %d connections", groups, len(seen), connections)
			}
		}
	})
}
