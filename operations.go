// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Operations returns the handler of the operational endpoints, which are served beside
// the MCP endpoint. The path of the request selects one:
//
//   - /healthz answers 200 as long as the process serves at all;
//   - /readyz answers 200 while new traffic is accepted, as [Gateway.Ready], and 503
//     from the beginning of a drain on;
//   - /status is [Status] as JSON;
//   - /metrics are the metrics in the text format of Prometheus.
//
// The first two need no authentication and accept any Host, since probes use addresses
// that are not configured, and reveal no more than a refused connection would. The
// others reveal names of backends and configuration mistakes: they require the same
// authentication as the MCP endpoint, with the same refusals, and are for the operators
// of the configuration only. All accept GET and HEAD.
// Paths are compared unmodified; any other path is answered with 404.
func (g *Gateway) Operations() http.Handler {
	return operations{
		"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }),
		"/readyz":  http.HandlerFunc(g.serveReady),
		"/status":  g.server.Guard(g.forOperators(readOnly(http.HandlerFunc(g.serveStatus)))),
		"/metrics": g.server.Guard(g.forOperators(readOnly(g.metrics.Handler()))),
	}
}

// operations maps paths to handlers. It is not an [http.ServeMux], which would redirect
// other forms of a path.
type operations map[string]http.Handler

func (o operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := o[r.URL.Path]
	if !ok {
		writeText(w, http.StatusNotFound, "not found")
		return
	}
	h.ServeHTTP(w, r)
}

// readOnly refuses methods other than GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeText(w, http.StatusMethodNotAllowed, "method not allowed, use GET or HEAD")
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// serveReady ignores the state of the backends: taking the gateway out of service
// because of one backend would also end the sessions of the healthy ones.
func (g *Gateway) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !g.Ready() {
		writeText(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	writeText(w, http.StatusOK, "ok")
}

func (g *Gateway) serveStatus(w http.ResponseWriter, _ *http.Request) {
	status := struct {
		Status
		Uptime string `json:"uptime"`
	}{Status: g.Status()}
	status.Uptime = shortDuration(status.Status.Uptime)
	// Reasons are texts of backends, which need not be UTF-8.
	raw, err := json.Marshal(status, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.Multiline(true))
	if err != nil {
		writeText(w, http.StatusInternalServerError, "cannot encode the status")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(raw, '\n')) // the client has disconnected
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // it is plain text; the client may have disconnected
}
