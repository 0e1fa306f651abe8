// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func noCompletions(context.Context, string, map[string]string) ([]string, error) { return nil, nil }

// A Mux declares the capabilities of its items only, and serves what it declares.
func TestCapabilities(t *testing.T) {
	template := Template{URI: "x:{a}", Name: "t", Read: note("x:y").Read}
	completed := template
	completed.Complete = map[string]Completer{"a": noCompletions}
	task := hello("task")
	task.Task = TaskOptional
	const changes = `{"listChanged":true}`
	for _, tt := range []struct {
		name  string
		items []Item
		want  string
	}{
		{"nothing", nil, `{}`},
		{"a tool", []Item{hello("a")}, `{"tools":` + changes + `,"logging":{}}`},
		{"a tool that runs as a task", []Item{task}, `{"tools":` + changes + `,"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"a resource", []Item{note("x:y")}, `{"resources":{"listChanged":true,"subscribe":true},"logging":{}}`},
		{"a template", []Item{template}, `{"resources":{"listChanged":true,"subscribe":true},"logging":{}}`},
		{"a template that is completed", []Item{completed}, `{"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`},
		{"a prompt", []Item{verse("v")}, `{"prompts":` + changes + `,"logging":{}}`},
		{"a prompt that is completed", []Item{verse("v", Argument{Name: "a", Complete: noCompletions})}, `{"prompts":` + changes + `,"completions":{},"logging":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New(tt.items...)
			equal(t, "discover", answer(t, m, "server/discover", ``), `{"supportedVersions":["2026-07-28"],"capabilities":`+tt.want+`}`)
			for _, probe := range []struct{ capability, method, params string }{
				{"tools", "tools/list", ``}, {"tools", "tools/call", `{"name":"nothing"}`},
				{"resources", "resources/list", ``}, {"resources", "resources/templates/list", ``}, {"resources", "resources/read", `{"uri":"no:thing"}`},
				{"prompts", "prompts/list", ``}, {"prompts", "prompts/get", `{"name":"nothing"}`},
				{"completions", "completion/complete", `{}`},
				{"extensions", "tasks/get", `{"taskId":"nothing"}`}, {"extensions", "tasks/cancel", `{"taskId":"nothing"}`}, {"extensions", "tasks/update", `{"taskId":"nothing"}`},
			} {
				_, err := serve(t, m, request(t, probe.method, probe.params))
				served := !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound})
				if offered := strings.Contains(tt.want, `"`+probe.capability+`"`); served != offered {
					t.Errorf("%s: served %v, offered %v (%v)", probe.method, served, offered, err)
				}
			}
		})
	}
}

// A declared capability is served even after its last item is removed, because clients
// continue to use it.
func TestCapabilitiesStay(t *testing.T) {
	m := New(hello("a"))
	if err := m.Remove(Tool{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	equal(t, "tools", answer(t, m, "tools/list", ``), `{"tools":[]}`)
	refused(t, m, request(t, "tools/call", `{"name":"a"}`), mcp.CodeInvalidParams, `unknown tool: "a"`)
}

func TestIdentity(t *testing.T) {
	m := &Mux{Name: "n", Version: "1", Instructions: "Do <this>."}
	equal(t, "discover", answer(t, m, "server/discover", ``), `{"supportedVersions":["2026-07-28"],"capabilities":{},"instructions":"Do <this>.",`+
		`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}}}`)
}

func TestUnknownMethods(t *testing.T) {
	m := New(hello("a"), note("x:y"), verse("v"))
	for _, method := range []string{"ping", "tools", "logging/setLevel", "resources/subscribe", "TOOLS/LIST", ""} {
		refused(t, m, request(t, method, ``), mcp.CodeMethodNotFound, "unknown method")
	}
	if res, err := m.Serve(t.Context(), request(t, "notifications/roots/list_changed", ``), &recorder{}); res != nil || err != nil {
		t.Errorf("a notification has %v, %v for a terminal, want nothing", res, err)
	}
}

// A fixed Mux declares no changes, and rejects them.
func TestFixed(t *testing.T) {
	m := &Mux{Fixed: true}
	m.MustAdd(hello("a"), note("x:y"), verse("v"))
	equal(t, "discover", answer(t, m, "server/discover", ``), `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{},"logging":{}}}`)
	for name, err := range map[string]error{"Add": m.Add(hello("b")), "Remove": m.Remove(hello("a")), "Updated": m.Updated("x:y")} {
		if !errors.Is(err, errFixed) {
			t.Errorf("%s: %v, want that nothing changes", name, err)
		}
	}
	if got := answer(t, m, "tools/list", ``); strings.Contains(got, `"b"`) || !strings.Contains(got, `"a"`) {
		t.Errorf("the list has changed: %s", got)
	}
}
