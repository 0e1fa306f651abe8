// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// BenchmarkRecordOfACall compares, in turns, a modern call over loopback with one that has
// no id, no stages and no record, and with what these cost alone. The unit x is the median of
// the first comparison.
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
	// plain is g without what is measured.
	plain := server.New(mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method != "tools/call" {
			return g.Serve(ctx, req, caller)
		}
		req.Timeline = nil
		_, res, err := g.call(ctx, 0, req, caller, catalog.Tools)
		return res, err
	}), server.Config{})
	without := httptest.NewServer(plain)
	defer func() {
		without.Close()
		_ = plain.Close() // nothing is left to report to
	}()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"everything__add","arguments":{"a":1},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"cursor","version":"2.3"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	call := func(to *httptest.Server) {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, to.URL, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"everything__add"},
		}
		resp, err := to.Client().Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s", resp.Status, text)
		}
	}
	call(front)
	call(without)
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
	timed := func(f func()) time.Duration {
		began := time.Now()
		for range turn {
			f()
		}
		return time.Since(began)
	}
	var ratios []float64
	n := 0
	for b.Loop() {
		// The first of two turns has what the one before has left behind.
		var with, bare time.Duration
		if n%2 == 0 {
			with, bare = timed(func() { call(front) }), timed(func() { call(without) })
		} else {
			bare, with = timed(func() { call(without) }), timed(func() { call(front) })
		}
		ratios = append(ratios, float64(with)/float64(bare))
		calls, records, n = calls+with, records+timed(record), n+1
	}
	n *= turn
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x")
	b.ReportMetric(float64(calls.Nanoseconds())/float64(n), "ns/call")
	b.ReportMetric(float64(records.Nanoseconds())/float64(n), "ns/record")
	b.ReportMetric(100*float64(records)/float64(calls), "%")
}
