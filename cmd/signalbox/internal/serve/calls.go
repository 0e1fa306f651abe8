// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// defaultCalls is how many calls are listed if the request does not say.
const defaultCalls = 100

// serveCalls adds the paths of the calls that a gateway remembers.
func serveCalls(routes *http.ServeMux, gateway *signalbox.Gateway) {
	routes.HandleFunc("GET "+control.CallsPath, func(w http.ResponseWriter, r *http.Request) {
		f, problem := callFilter(r.URL.Query())
		if problem != "" {
			http.Error(w, problem, http.StatusBadRequest)
			return
		}
		writeAnswer(w, gateway.Calls(f))
	})
	routes.HandleFunc("GET "+control.CallsPath+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, ok := mcp.ParseCallID(r.PathValue("id"))
		if !ok {
			http.Error(w, "not the id of a call", http.StatusBadRequest)
			return
		}
		call, ok := gateway.Call(id)
		if !ok {
			known := gateway.Calls(signalbox.CallFilter{Most: 1})
			known.Calls = nil // how far back they reach is the answer
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			writeAnswer(w, known)
			return
		}
		writeAnswer(w, call)
	})
}

// callFilter reads the query of control.CallsPath: backend, method, failed, and limit.
func callFilter(query url.Values) (f signalbox.CallFilter, problem string) {
	f = signalbox.CallFilter{Backend: query.Get("backend"), Method: query.Get("method"), Most: defaultCalls}
	var err error
	if text := query.Get("failed"); text != "" {
		if f.Failed, err = strconv.ParseBool(text); err != nil {
			return f, "failed must be true or false"
		}
	}
	if text := query.Get("limit"); text != "" {
		if f.Most, err = strconv.Atoi(text); err != nil || f.Most < 1 {
			return f, "limit must be a number from 1 on"
		}
	}
	return f, ""
}
