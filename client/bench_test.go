// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// canned is a transport with a fixed response and few allocations, so that the client's
// own are counted. It serves one request at a time.
type canned struct {
	modern, stream bool
	body           [64 << 10]byte
	rest           bytes.Reader
	answer         []byte
	header         http.Header
}

// RoundTrip returns the response.
func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody}, nil
	}
	n, err := io.ReadFull(r.Body, c.body[:r.ContentLength])
	if err != nil {
		return nil, err
	}
	c.answer = c.answer[:0]
	text := c.body[:n]
	_, id, isCall := bytes.Cut(text, []byte(`"id":`))
	if !isCall {
		return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
	}
	id, _, _ = bytes.Cut(id, []byte(","))
	result := `{"content":[{"type":"text","text":"hello"}]}`
	switch {
	case bytes.Contains(text, []byte(`"initialize"`)):
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	case bytes.Contains(text, []byte(`"server/discover"`)):
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
	case c.modern:
		result = `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`
	}
	if c.stream {
		c.answer = append(c.answer, "event: message\ndata: "...)
	}
	c.answer = append(c.answer, `{"jsonrpc":"2.0","id":`...)
	c.answer = append(c.answer, id...)
	c.answer = append(c.answer, `,"result":`...)
	c.answer = append(append(c.answer, result...), '}')
	if c.stream {
		c.answer = append(c.answer, "\n\n"...)
	}
	c.rest.Reset(c.answer)
	return &http.Response{StatusCode: http.StatusOK, Header: c.header, ContentLength: int64(len(c.answer)), Body: eagerBody{&c.rest}}, nil
}

// eagerBody is a response body that returns io.EOF together with its last bytes, as
// that of net/http does.
type eagerBody struct{ rest *bytes.Reader }

// Read implements io.Reader.
func (e eagerBody) Read(p []byte) (int, error) {
	n, err := e.rest.Read(p)
	if err == nil && e.rest.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

// Close does nothing.
func (e eagerBody) Close() error { return nil }

// cannedAllocs is what canned itself allocates: the response, and the interface of its
// body.
const cannedAllocs = 1

// newCall returns a client of a canned server, and a call as a client of the era makes
// it.
func newCall(tb testing.TB, from mcp.Version, modern, stream bool) (*Client, *mcp.Request) {
	tb.Helper()
	t := &canned{modern: modern, stream: stream, header: http.Header{"Content-Type": {"application/json"}}}
	if stream {
		t.header.Set("Content-Type", "text/event-stream")
	}
	cfg := Config{Name: "b", Transport: t, Version: mcp.LatestLegacy}
	if modern {
		cfg.Version = mcp.LatestModern
	}
	c := NewHTTP("http://backend.test/mcp", cfg)
	c.link.(*httpLink).CustomTransport = false //nolint:forcetypeassert // what NewHTTP has made
	params := `{"name":"echo","arguments":{"text":"hello"}}`
	if from.Era() == mcp.EraModern {
		params = `{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`
	}
	req, err := mcp.NewRequest(call.MethodToolsCall, []byte(params))
	if err != nil {
		tb.Fatal(err)
	}
	req.Client = &mcp.Peer{Version: from, Info: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{}`)}
	if from.Era() == mcp.EraModern {
		req.TakesInputRequired = true
	} else {
		req.LogLevel = mcp.LogUnset
		scope := mcp.NewScope("s", nil)
		tb.Cleanup(scope.End)
		req.Scope = scope
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c, req
}

// eraPairs are the pairs of eras, each with the allocations that a call may have in
// addition to its transport's: the request, the message, the call, its Call and the
// response, and the context of the Call.
func eraPairs() []struct {
	from   mcp.Version
	modern bool
	allocs float64
} {
	return []struct {
		from   mcp.Version
		modern bool
		allocs float64
	}{
		{mcp.LatestLegacy, false, 13},
		{mcp.LatestLegacy, true, 12},
		{mcp.LatestModern, false, 13},
		{mcp.LatestModern, true, 11},
	}
}

func BenchmarkCall(b *testing.B) {
	for _, cell := range eraPairs() {
		for _, stream := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s-modern-%v-stream-%v", cell.from, cell.modern, stream), func(b *testing.B) {
				c, req := newCall(b, cell.from, cell.modern, stream)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Serve(b.Context(), req, call.NoCaller{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestCallAllocatesLittle(t *testing.T) {
	for _, cell := range eraPairs() {
		for _, stream := range []bool{false, true} {
			c, req := newCall(t, cell.from, cell.modern, stream)
			call := func() {
				if _, err := c.Serve(t.Context(), req, call.NoCaller{}); err != nil {
					t.Fatal(err)
				}
			}
			call()
			want := cell.allocs
			if stream {
				want++ // for the buffer
			}
			if got := testing.AllocsPerRun(100, call) - cannedAllocs; got > want {
				t.Errorf("from %s, modern %v, stream %v: %v allocations, want at most %v", cell.from, cell.modern, stream, got, want)
			}
		}
	}
}
