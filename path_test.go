// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// cannedServer is a server with one tool, prompt and resource that returns prebuilt
// results.
func cannedServer() mcp.Handler {
	answers := make(map[string]*mcp.Result)
	for method, result := range map[string]string{
		"server/discover": `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}}}`,
		"tools/list":      `{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`,
		"prompts/list":    `{"prompts":[{"name":"add"}]}`,
		"resources/list":  `{"resources":[{"uri":"file:///a","name":"a"}]}`,
		"tools/call":      `{"content":[],"resultType":"complete"}`,
		"prompts/get":     `{"messages":[],"resultType":"complete"}`,
		"resources/read":  `{"contents":[],"resultType":"complete"}`,
	} {
		res, err := mcp.NewResult([]byte(result))
		if err != nil {
			panic(err)
		}
		answers[method] = res
	}
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if res, ok := answers[req.Method]; ok {
			return res, nil
		}
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "unknown method")
	})
}

// ignoringCaller is a client that ignores all notifications.
type ignoringCaller struct{}

func (ignoringCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (ignoringCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client to ask")
}

func (ignoringCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// pathGateway returns a gateway with the given number of backends, and requests to the
// last of them: one in a session and one without.
func pathGateway(tb testing.TB, backends int, method, params string) (g *signalbox.Gateway, reqs map[string]*mcp.Request) {
	tb.Helper()
	var opt signalbox.Options
	for i := range backends {
		opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: fmt.Sprintf("b%03d", i), Handler: cannedServer()})
	}
	g, err := signalbox.New(config.Config{}, opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := g.Close(); err != nil {
			tb.Error(err)
		}
	})
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		tb.Fatal(err)
	}
	// Wait for the first lists here, outside of the measurement.
	if _, err := g.Serve(tb.Context(), &mcp.Request{Method: "tools/list", Client: &mcp.Peer{}}, ignoringCaller{}); err != nil {
		tb.Fatal(err)
	}
	legacy := *req
	legacy.Scope = mcp.NewScope("s", ignoringCaller{})
	tb.Cleanup(legacy.Scope.End)
	return g, map[string]*mcp.Request{"modern": req, "legacy": &legacy}
}

// A call costs the gateway nine allocations, however many backends it has: the
// requested name, the parameters with the backend's own name, one to build them, the
// request, the deadline of the call at the backend, and two each for its context and its timer.
func TestPathAllocations(t *testing.T) {
	for _, tt := range []struct {
		method, params string
		most           float64
	}{
		{"tools/call", `{"name":"b%03d__add","arguments":{"a":1}}`, 9},
		{"prompts/get", `{"name":"b%03d__add"}`, 9},
		{"resources/read", `{"uri":"file:///a","of":%d}`, 7}, // nothing in it is renamed
	} {
		for _, backends := range []int{1, 100} {
			g, reqs := pathGateway(t, backends, tt.method, fmt.Sprintf(tt.params, backends-1))
			for era, req := range reqs {
				got := testing.AllocsPerRun(200, func() {
					if _, err := g.Serve(t.Context(), req, ignoringCaller{}); err != nil {
						t.Fatal(err)
					}
				})
				if got > tt.most {
					t.Errorf("%s of %d backends, %s: %v allocations, want at most %v", tt.method, backends, era, got, tt.most)
				}
			}
		}
	}
}

// A result without names is forwarded unmodified, and not built again.
func TestResultPassesAsItIs(t *testing.T) {
	own := cannedServer()
	want, err := own.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, ignoringCaller{})
	if err != nil {
		t.Fatal(err)
	}
	opt := signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: own}}}
	g := gatewaytest.New(t, config.Config{}, opt)
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"a__add"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Serve(t.Context(), req, ignoringCaller{}); err != nil || got != want {
		t.Errorf("got %p, %v; want %p", got, err, want)
	}
}

func BenchmarkPath(b *testing.B) {
	for _, backends := range []int{1, 100} {
		g, reqs := pathGateway(b, backends, "tools/call", fmt.Sprintf(`{"name":"b%03d__add","arguments":{"a":1}}`, backends-1))
		for era, req := range reqs {
			b.Run(fmt.Sprintf("%s/%d", era, backends), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := g.Serve(b.Context(), req, ignoringCaller{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
