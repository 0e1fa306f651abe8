// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Operations returns what is served beside the MCP endpoint for those who run the
// gateway, by the path of the request:
//
//   - /healthz answers 200 as long as the process serves at all;
//   - /readyz answers 200 while new traffic may come, as [Gateway.Ready], and 503
//     from the beginning of a drain on;
//   - /status is [Status] as JSON;
//   - /metrics are the metrics in the text format of Prometheus.
//
// The first two are for anybody under any name of the host, since probes use
// addresses that nobody configures, and tell no more than a refused connection
// would. The others name backends and people's mistakes: they are for those alone
// who may call the MCP endpoint, with the same refusals. All are for GET and
// HEAD. Paths are compared as they came; another one is answered with 404.
func (g *Gateway) Operations() http.Handler {
	return operations{
		"/healthz": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }),
		"/readyz":  http.HandlerFunc(g.serveReady),
		"/status":  g.server.Guard(readOnly(http.HandlerFunc(g.serveStatus))),
		"/metrics": g.server.Guard(readOnly(g.metrics.Handler())),
	}
}

// operations are handlers by their path. It is no [http.ServeMux], which would
// answer another form of a path with a redirect.
type operations map[string]http.Handler

func (o operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := o[r.URL.Path]
	if !ok {
		say(w, http.StatusNotFound, "nothing is here")
		return
	}
	h.ServeHTTP(w, r)
}

// readOnly refuses what could be meant to change something.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			say(w, http.StatusMethodNotAllowed, "this is only to be read")
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// serveReady does not ask whether backends are live: those that are have to be
// served, and to take the gateway away for one that is not would end their
// sessions, too.
func (g *Gateway) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !g.Ready() {
		say(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	say(w, http.StatusOK, "ok")
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
		say(w, http.StatusInternalServerError, "the status cannot be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(raw, '\n')) // whoever asked has gone
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // whoever asked has gone
}
