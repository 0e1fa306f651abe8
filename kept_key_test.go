// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
)

// What is kept of a server is for one credential: another setting that decides which it is leads to
// other files.
func TestKeptListsAreOfOneCredential(t *testing.T) {
	entry := func(change func(*config.Backend)) *config.Backend {
		srv := &config.Backend{
			URL:           "http://b/mcp",
			HeadersHelper: &config.HeadersHelper{Command: []string{"token"}, Env: map[string]config.Secret{"ACCOUNT": config.NewSecret("a")}},
			OAuth:         &config.OAuth{As: config.AsGateway, Parameters: map[string]config.Secret{"tenant": config.NewSecret("a")}},
		}
		change(srv)
		return srv
	}
	g := new(Gateway)
	same := func(*config.Backend) {}
	if diff := cmp.Diff(g.keyOf(entry(same)), g.keyOf(entry(same))); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(*config.Backend){
		"the environment of the helper": func(srv *config.Backend) { srv.HeadersHelper.Env["ACCOUNT"] = config.NewSecret("b") },
		"a parameter of the requests":   func(srv *config.Backend) { srv.OAuth.Parameters["tenant"] = config.NewSecret("b") },
		"the grant":                     func(srv *config.Backend) { srv.OAuth.Grant = config.GrantJWTBearer },
		"the assertion":                 func(srv *config.Backend) { srv.OAuth.Assertion = "/run/other" },
	} {
		if cmp.Equal(g.keyOf(entry(same)), g.keyOf(entry(change))) {
			t.Errorf("%s: another one has the same files", name)
		}
	}
}
