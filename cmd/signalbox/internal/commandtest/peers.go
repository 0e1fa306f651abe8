// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package commandtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// Answering is a server that is not an MCP server, as found on a guessed port.
func Answering(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Responding returns a server that responds to each method with its result, or with an
// error if it has none.
func Responding(results map[string]string) mcp.Handler {
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if result, ok := results[req.Method]; ok {
			return mcp.NewResult([]byte(result))
		}
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	})
}

// Serving starts a server for a Handler on loopback and returns its URL.
func Serving(t *testing.T, h mcp.Handler) string {
	t.Helper()
	s := server.New(h, server.Config{})
	l := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		l.Close()
	})
	return l.URL + "/mcp"
}

// Discovery is a result of server/discover.
const Discovery = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},
	"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}`

// CallOf returns a call of a tool, without arguments.
func CallOf(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// CallHeader returns the header of CallOf.
func CallHeader(tool string) [][2]string {
	return [][2]string{
		{"content-type", "application/json"},
		{"accept", "application/json, text/event-stream"},
		{"mcp-protocol-version", "2026-07-28"},
		{"mcp-method", "tools/call"},
		{"mcp-name", tool},
	}
}

// Answers returns a server with one result for every request.
func Answers(result string) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return mcp.NewResult([]byte(result))
	})
}

// StatusServer responds like a gateway, and records the request.
func StatusServer(t *testing.T, handler http.HandlerFunc) (address *url.URL, asked *http.Request) {
	t.Helper()
	asked = new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = *r.Clone(r.Context())
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address, asked
}

// ClosedAddress returns an address without a listener for as long as the test runs: that of
// the far end of a connection. A port that was free a moment ago may be in use by another
// test.
func ClosedAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}
