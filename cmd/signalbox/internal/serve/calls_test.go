// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The admin plane lists the latest calls, newest first, and those that a query selects.
func TestCallsOnTheAdminPlane(t *testing.T) {
	t.Parallel()
	g, err := signalbox.New(config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "demo", Handler: demo.New()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, name := range []string{"demo__echo", "demo__nothing", "demo__echo"} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"`+name+`","arguments":{"text":"x"}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = g.Serve(t.Context(), req, nil) // an unknown tool is an error
	}
	routes := http.NewServeMux()
	serveCalls(routes, g)
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for query, want := range map[string][]string{
		"":                      {"demo__echo", "demo__nothing", "demo__echo"},
		"?limit=2":              {"demo__echo", "demo__nothing"},
		"?failed=true":          {"demo__nothing"},
		"?backend=demo":         {"demo__echo", "demo__echo"},
		"?method=prompts%2Fget": nil,
	} {
		code, body := ask(control.CallsPath + query)
		var got signalbox.CallRecords
		if err := control.Decode([]byte(body), &got); err != nil || code != http.StatusOK || got.Recorded != 3 || got.Since.IsZero() {
			t.Fatalf("%s: %d %s", query, code, body)
		}
		var names []string
		for i, c := range got.Calls {
			names = append(names, c.Name)
			if code, one := ask(control.CallsPath + "/" + c.ID); code != http.StatusOK || !strings.Contains(one, `"call":"`+c.ID+`"`) {
				t.Errorf("%s: %d %s", c.ID, code, one)
			}
			if i > 0 && c.Received.After(got.Calls[i-1].Received) {
				t.Errorf("%s is newer than the call before it", c.ID)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for path, want := range map[string]int{
		"?limit=0": http.StatusBadRequest, "?limit=x": http.StatusBadRequest, "?failed=perhaps": http.StatusBadRequest,
		"/nonsense": http.StatusBadRequest, "/7k3m9-q2xfa": http.StatusNotFound,
	} {
		if code, body := ask(control.CallsPath + path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
}
