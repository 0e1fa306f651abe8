// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/signalbox-mcp/signalbox/server"
)

// A path below that of an endpoint selects a profile, and the gateway decides whether it exists.
func TestProfileRoutes(t *testing.T) {
	t.Parallel()
	shows := func(endpoint string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(endpoint + " " + server.ProfileOf(r.Context())))
		})
	}
	const nothing = "nothing is here; the MCP endpoint is "
	for _, tt := range []struct{ path, request, want string }{
		{"/mcp", "/mcp", "main "},
		{"/mcp", "/mcp/p/coding", "main coding"},
		{"/mcp", "/mcp/p/no such name", "main no such name"},
		{"/mcp", "/sse", "sse "},
		{"/mcp", "/sse/p/coding", "sse coding"},
		{"/mcp", "/mcp/p/", nothing + "/mcp\n"},
		{"/mcp", "/mcp/p", nothing + "/mcp\n"},
		{"/mcp", "/mcp/p/coding/", nothing + "/mcp\n"},
		{"/mcp", "/p/coding", nothing + "/mcp\n"},
		{"/", "/p/coding", "main coding"},
		{"/a/b", "/a/b/p/coding", "main coding"},
		{"/a/b", "/mcp/p/coding", nothing + "/a/b\n"},
		{"/mcp/p/x", "/mcp/p/x", "main "},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.URL.Path = tt.request
		(&endpoint{path: tt.path}).routes(shows("main"), shows("sse"), shows("operations")).ServeHTTP(w, r)
		if got := w.Body.String(); got != tt.want {
			t.Errorf("%s, where the endpoint is %s: %q, want %q", tt.request, tt.path, got, tt.want)
		}
	}
}
