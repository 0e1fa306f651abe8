// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// BenchmarkRecordOfACall compares, in turns, a modern call over loopback with what its id,
// the looks at the clock, its record and its metrics cost in it.
func BenchmarkRecordOfACall(b *testing.B) {
	result := func(text string) (*mcp.Result, error) { return mcp.NewResult([]byte(text)) }
	served := server.New(mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		case "tools/list":
			return result(`{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}`)
		default:
			return result(`{"content":[{"type":"text","text":"3"}],"resultType":"complete"}`)
		}
	}), server.Config{})
	backend := httptest.NewServer(served)
	defer func() {
		backend.Close()
		_ = served.Close() // nothing is left to report to
	}()
	g, err := New(config.Config{Servers: []config.Backend{{Name: "everything", URL: backend.URL}}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	front := httptest.NewServer(g)
	defer front.Close()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"everything__add","arguments":{"a":1},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"cursor","version":"2.3"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	call := func() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, front.URL, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"everything__add"},
		}
		resp, err := front.Client().Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s", resp.Status, text)
		}
	}
	call()
	m, err := mcp.Parse([]byte(body), mcp.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	req := &mcp.Request{Method: m.Method, Params: m.Params, Client: &mcp.Peer{Version: mcp.V20260728, Info: m.Params.Raw(mcp.MetaClientInfo)}}
	by, _ := g.view.Load().backend("everything")
	res, err := result(`{"content":[{"type":"text","text":"3"}],"resultType":"complete"}`)
	if err != nil {
		b.Fatal(err)
	}
	times := new(mcp.Timeline)
	record := func() {
		*times = mcp.Timeline{}
		times.Begin(time.Now())
		req.Timeline = times
		c, _ := g.takeCall(req)
		c.servedBy = servedBy{name: "everything__add", backend: by}
		times.Mark(mcp.StageAdmitted)
		times.Mark(mcp.StageResolved)
		times.Attempt()
		for s := mcp.StageLeased; s < mcp.NumStages; s++ {
			times.Mark(s)
		}
		g.recordCall(b.Context(), req, &c, res, nil)
		times.Delivered()
	}
	var calls, records time.Duration
	const turn = 20
	n := 0
	for b.Loop() {
		began := time.Now()
		for range turn {
			call()
		}
		middle := time.Now()
		for range turn {
			record()
		}
		calls, records, n = calls+middle.Sub(began), records+time.Since(middle), n+turn
	}
	b.ReportMetric(float64(calls.Nanoseconds())/float64(n), "ns/call")
	b.ReportMetric(float64(records.Nanoseconds())/float64(n), "ns/record")
	b.ReportMetric(100*float64(records)/float64(calls), "%")
}
