// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/test/callertest"
)

// No wrapper of a Caller loses what the Caller can do.
func TestWrappersPassEverything(t *testing.T) {
	callertest.CheckPackage(t, map[string]callertest.Wrapper{
		"taskIDCaller": {Wrap: func(c mcp.Caller) mcp.Caller {
			b := &activeBackend{client: new(client.Client)} // forwards results unchanged
			return &taskIDCaller{Caller: c, CallerExtension: c.Extension(), backend: b}
		}},
	})
}

// A Handler that is a backend in the process of a gateway has everything that the Caller
// of the gateway can do: for each kind of request, in a session and without one, behind
// one gateway and behind two. Only results do not pass while they arrive: such a Handler
// may change them after its own backend has returned them.
func TestGatewayPassesEverything(t *testing.T) {
	r := new(callertest.Recorder)
	served := 0
	check := func(ctx context.Context, c mcp.Caller) {
		served++
		callertest.Check(ctx, t, c, r, "Receive")
	}
	var h mcp.Handler = mux.New(
		mux.Tool{Name: "a", Call: func(ctx context.Context, call *mux.Call) (*mux.Result, error) {
			check(ctx, call.Caller)
			return mux.Say("done"), nil
		}},
		mux.Prompt{Name: "b", Get: func(ctx context.Context, call *mux.Call) ([]mux.Message, error) {
			check(ctx, call.Caller)
			return nil, nil
		}},
		mux.Resource{URI: "c:d", Name: "c", Read: func(ctx context.Context, call *mux.Call) ([]mux.Contents, error) {
			check(ctx, call.Caller)
			return []mux.Contents{mux.TextContents("c:d", "", "x")}, nil
		}},
	)
	prefix := ""
	for _, name := range []string{"inner", "outer"} {
		g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: name, Handler: h}}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		h, prefix = g, name+"__"+prefix
		for _, scope := range []*mcp.Scope{nil, mcp.NewScope("s", r)} {
			for method, params := range map[string]string{
				"tools/call":     `{"name":"` + prefix + `a"}`,
				"prompts/get":    `{"name":"` + prefix + `b"}`,
				"resources/read": `{"uri":"c:d"}`,
			} {
				req, err := mcp.NewRequest(method, []byte(params))
				if err != nil {
					t.Fatal(err)
				}
				req.Scope, served = scope, 0
				if _, err := g.Serve(t.Context(), req, r); err != nil || served != 1 {
					t.Errorf("%s %s behind %s: served %d times, %v", method, params, name, served, err)
				}
			}
		}
	}
}
