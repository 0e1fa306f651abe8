// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/internal/life"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// instant is a server of one tool, prompt and resource that answers with results
// which it has made before.
func instant() mcp.Handler {
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

// deaf is a client that wants to hear of nothing.
type deaf struct{}

func (deaf) Notify(context.Context, *mcp.Notification) error { return nil }

func (deaf) Ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "nobody to ask")
}

// inside returns a gateway of so many backends, and what goes through it to the last of
// them: a request of a session and one of none.
func inside(tb testing.TB, backends int, method, params string) (g *signalbox.Gateway, reqs map[string]*mcp.Request) {
	tb.Helper()
	var opt signalbox.Options
	for i := range backends {
		opt.InProcess = append(opt.InProcess, signalbox.InProcess{Name: fmt.Sprintf("b%03d", i), Handler: instant()})
	}
	g, err := signalbox.New(signalbox.Config{}, opt)
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
	// What was not listed yet is waited for, here and not in what is measured.
	if _, err := g.Serve(tb.Context(), &mcp.Request{Method: "tools/list", Client: &mcp.Peer{}}, deaf{}); err != nil {
		tb.Fatal(err)
	}
	legacy := *req
	legacy.Scope = mcp.NewScope("s", deaf{})
	tb.Cleanup(legacy.Scope.End)
	return g, map[string]*mcp.Request{"modern": req, "legacy": &legacy}
}

// A call costs the gateway five allocations from end to end of its inside, however many
// backends it has: what is asked for, the parameters with the backend's own name of it
// and one for how they are made, the request and the cell of the call at the backend.
func TestPathAllocations(t *testing.T) {
	for _, tt := range []struct {
		method, params string
		most           float64
	}{
		{"tools/call", `{"name":"b%03d__add","arguments":{"a":1}}`, 5},
		{"prompts/get", `{"name":"b%03d__add"}`, 5},
		{"resources/read", `{"uri":"file:///a","of":%d}`, 3}, // nothing of it is renamed
	} {
		for _, backends := range []int{1, 100} {
			g, reqs := inside(t, backends, tt.method, fmt.Sprintf(tt.params, backends-1))
			for era, req := range reqs {
				var ctx life.Context // as a request's is
				got := testing.AllocsPerRun(200, func() {
					if _, err := g.Serve(&ctx, req, deaf{}); err != nil {
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

// A result in which nothing is named is given on as it is, and not made again.
func TestResultPassesAsItIs(t *testing.T) {
	own := instant()
	want, err := own.Serve(t.Context(), &mcp.Request{Method: "tools/call"}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	opt := signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: own}}}
	g := newGateway(t, signalbox.Config{}, opt)
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"a__add"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.Serve(t.Context(), req, deaf{}); err != nil || got != want {
		t.Errorf("got %p, %v; want %p", got, err, want)
	}
}

func BenchmarkPath(b *testing.B) {
	for _, backends := range []int{1, 100} {
		g, reqs := inside(b, backends, "tools/call", fmt.Sprintf(`{"name":"b%03d__add","arguments":{"a":1}}`, backends-1))
		for era, req := range reqs {
			b.Run(fmt.Sprintf("%s/%d", era, backends), func(b *testing.B) {
				var ctx life.Context // as a request's is
				b.ReportAllocs()
				for b.Loop() {
					if _, err := g.Serve(&ctx, req, deaf{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
