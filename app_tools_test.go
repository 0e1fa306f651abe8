// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// The definitions of a tool that is listed otherwise for clients that render apps.
const (
	showPlain = `{"name":"show","description":"Shows text.","inputSchema":{"type":"object"}}`
	showUI    = `{"name":"show","description":"Shows a page.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://show"}}}`
)

// changedTool returns a definition with a new text, or with a new argument.
func changedText(tool string) string { return strings.Replace(tool, "Shows", "ATTACK shows", 1) }

func changedSchema(tool string) string {
	return strings.Replace(tool, `"type":"object"`, `"type":"object","properties":{"ATTACK":{"type":"string"}}`, 1)
}

// lockFaces writes a lock file of the server b with these definitions of tools, by the face, and a configuration.
func lockFaces(t *testing.T, more string, lines map[pins.Face][]string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "signalbox.yaml")
	l, d := pins.NewLock(), pins.NewDigester(nil)
	l.SetServer("b", pins.Server{Name: "b", Version: "1"})
	for face, tools := range lines {
		for _, tool := range tools {
			name, _, _ := strings.Cut(strings.TrimPrefix(tool, `{"name":"`), `"`)
			digest := d.Of([]byte(tool))
			l.Approve(pins.Key{Server: "b", Kind: pins.Tool, Name: name, Face: face}, digest)
			writeText(t, config.TextFile(file, digest), tool)
		}
	}
	return loadLocked(t, file, l, "mcpServers: {b: {url: \"http://b/mcp\"}}\nprofiles: {p: {servers: [b]}}\n"+more)
}

// C12: each list of a tool is judged by its own line. What changes for clients that render apps is frozen or held for them,
// and other clients see no difference, and the reverse.
func TestC12Faces(t *testing.T) {
	refresh, both := appOnly("refresh"), map[pins.Face][]string{pins.Plain: {showPlain, appOnly("refresh")}, pins.UI: {showUI}}
	for name, tt := range map[string]struct {
		approved            map[pins.Face][]string
		plain, ui           []string
		plainTool, hostTool string // what is offered as show; "" for nothing
		problem             string // with the start of it, of clients that render apps alone
		code                string
	}{
		"approved":             {both, []string{showPlain}, []string{showUI}, showPlain, showUI, "", ""},
		"text for apps":        {both, []string{showPlain}, []string{changedText(showUI)}, showPlain, showUI, `tool "show": for clients that render apps: its text has changed`, code.ItemFrozen},
		"schema for apps":      {both, []string{showPlain}, []string{changedSchema(showUI)}, showPlain, "", `tool "show": for clients that render apps: left out: its definition has changed`, code.ItemHeld},
		"text for others":      {both, []string{changedText(showPlain)}, []string{showUI}, showPlain, showUI, "", ""},
		"schema for others":    {both, []string{changedSchema(showPlain)}, []string{showUI}, "", showUI, "", ""},
		"one list again":       {both, []string{showPlain}, []string{showPlain}, showPlain, showPlain, "", ""},
		"new for apps":         {both, []string{showPlain}, []string{showUI, tool("ATTACK", "")}, showPlain, showUI, `tool "ATTACK": for clients that render apps: left out: it is not approved yet`, code.ItemHeld},
		"no second line":       {map[pins.Face][]string{pins.Plain: {showPlain, refresh}}, []string{showPlain}, []string{changedText(showUI)}, showPlain, showPlain, `tool "show": for clients that render apps: its text has changed`, code.ItemFrozen},
		"no second line, held": {map[pins.Face][]string{pins.Plain: {showPlain, refresh}}, []string{showPlain}, []string{changedSchema(showUI)}, showPlain, "", `tool "show": for clients that render apps: left out`, code.ItemHeld},
		"for apps alone":       {map[pins.Face][]string{pins.Plain: {refresh}, pins.UI: {showUI}}, nil, []string{showUI}, "", showUI, "", ""},
		"a line of apps":       {map[pins.Face][]string{pins.Plain: {refresh}, pins.UI: {changedText(showPlain)}}, []string{changedText(showPlain)}, []string{changedText(showPlain)}, "", changedText(showPlain), "", ""},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, modern server %t", name, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newAppServer(modern, append(tt.plain, refresh), append(tt.ui, refresh))
					var log logtest.Log
					h := gatewaytest.Open(t, *lockFaces(t, "", tt.approved), signalbox.Options{Transport: gatewaytest.ServeBackends(t, s), Logger: slog.New(log.Handler())})
					for _, v := range []mcp.Version{mcp.V20250618, mcp.V20260728} {
						for _, profile := range []string{"", "p"} {
							openAs(h.At(profile), v, rendering).wantShow(tt.hostTool)
							openAs(h.At(profile), v, `{}`).wantShow(tt.plainTool)
						}
					}
					problems := slices.DeleteFunc(h.G.Status().Problems, func(p string) bool { return !strings.Contains(p, "for clients that render apps") })
					isAsWanted := func(p string) bool {
						return tt.problem != "" && strings.HasPrefix(p, `backend "b": `+tt.problem) && strings.HasSuffix(p, "signalbox approve b ["+tt.code+"]")
					}
					if (tt.problem != "") != (len(problems) == 1) || !slices.ContainsFunc(problems, isAsWanted) && tt.problem != "" {
						t.Errorf("problems %q, want %s", problems, tt.problem)
					}
					if err := h.G.Close(); err != nil { // which writes the rest of the log
						t.Error(err)
					}
					if n := log.Count(`for clients that render apps: `); n != len(problems) {
						t.Errorf("%d records in the log: %s", n, strings.Join(log.Lines(), ""))
					}
				})
			})
		}
	}
}

// wantShow checks the definition of the tool show, or for "" that it does not exist for the client.
func (c *appClient) wantShow(definition string) {
	c.T.Helper()
	got := c.list()
	if got["b__ATTACK"] != "" {
		c.T.Errorf("listed are %v", got)
	}
	if definition == "" {
		if got["b__show"] != "" {
			c.T.Errorf("listed as %s", got["b__show"])
		}
		c.wantUnknown("b__show")
		return
	}
	if want := strings.NewReplacer(`"show"`, `"b__show"`, `ui://show`, `ui://b/show`).Replace(definition); got["b__show"] != want {
		c.T.Errorf("listed as %s, want %s", got["b__show"], want)
	}
	c.wantCalled("b__show", "show of b")
}

// A definition for clients that render apps that changes while they are connected reaches none of them.
func TestC12FaceChangesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAppServer(false, []string{showPlain, appOnly("refresh")}, []string{showUI, appOnly("refresh")})
		changed := make(chan struct{}) // closed and replaced when the lists change
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			for {
				s.mu.Lock()
				next := changed
				s.mu.Unlock()
				select {
				case <-next:
					x.Event("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				case <-x.R.Context().Done():
					return
				}
			}
		}
		cfg := lockFaces(t, "", map[pins.Face][]string{pins.Plain: {showPlain, appOnly("refresh")}, pins.UI: {showUI}})
		h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s)})
		host := openAs(h, mcp.V20251125, rendering)
		host.wantShow(showUI)
		for _, step := range []struct{ ui, offered string }{{changedText(showUI), showUI}, {changedSchema(showUI), ""}, {showUI, showUI}} {
			s.mu.Lock()
			s.ui = []string{step.ui, appOnly("refresh")}
			close(changed)
			changed = make(chan struct{})
			s.mu.Unlock()
			time.Sleep(5 * time.Second)
			host.list() // the lists are requested again
			time.Sleep(5 * time.Second)
			host.wantShow(step.offered)
			openAs(h, mcp.V20260728, `{}`).wantShow(showPlain)
		}
	})
}

// ReadAppTools adds the tools that are listed otherwise for clients that render apps, and ReadPages the pages of these.
func TestReadAppTools(t *testing.T) {
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newAppServer(modern, []string{showPlain, tool("same", ""), appOnly("refresh")}, []string{changedText(showUI), page("more"), page("more"), `{ "name": "same", "inputSchema": {"type":"object"}}`, appOnly("refresh")})
			s.On["resources/read"] = func(x *faultyserver.Exchange) {
				x.Result(fmt.Sprintf(`{"contents":[{"uri":"x","text":"renders %t"}]}`, s.renders(x)))
			}
			cfg := lockFaces(t, "", map[pins.Face][]string{pins.Plain: {showPlain, tool("same", ""), appOnly("refresh")}, pins.UI: {showUI}})
			h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s)})
			openAs(h, mcp.V20260728, `{}`).list()
			all := h.G.Definitions()
			h.G.ReadAppTools(t.Context(), all)
			h.G.ReadPages(t.Context(), all)
			var got []string
			for _, it := range all.Items {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %t %s", it.Kind, it.Name, it.State, it.Held, it.Face)))
			}
			want := []string{
				"tool show approved false", "tool same approved false", "tool refresh approved false", "tool more new true ui", "tool show frozen false ui",
				"page ui://more new true", "page ui://show new true",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("modern server %t: %s", modern, diff)
			}
			if it := all.Items[4]; it.Listed != changedText(showUI) || it.Approved != showUI {
				t.Errorf("modern server %t: %+v", modern, it)
			}
			if page := all.Items[6].Listed; page != `{"text":"renders true"}` {
				t.Errorf("modern server %t: the page is %s", modern, page)
			}
		})
	}
}

// After ReadAppTools the gateway offers what was read, also if the server does not notify of changes and its lists are those of
// an earlier run: what is approved then is what clients get.
func TestReadAppToolsAgain(t *testing.T) {
	folder := t.TempDir()
	for _, isSecondRun := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newAppServer(true, []string{showPlain, appOnly("refresh")}, []string{showUI})
			if s.Capabilities = `{"tools":{}}`; isSecondRun {
				s.ui = []string{showUI, page("more")}
			}
			cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://b/mcp"}}}
			h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s), ListsFolder: folder})
			host := openAs(h, mcp.V20260728, rendering)
			host.wantNames("b__show")
			if isSecondRun {
				h.G.ReadAppTools(t.Context(), h.G.Definitions())
				time.Sleep(time.Second)
				host.wantNames("b__show", "b__more")
			}
		})
	}
}

// A server whose list for clients that render apps cannot be read is not known, so that nothing counts as gone.
func TestReadAppToolsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAppServer(true, []string{showPlain, appOnly("refresh")}, nil)
		list := s.On["tools/list"]
		s.On["tools/list"] = func(x *faultyserver.Exchange) {
			if s.renders(x) {
				x.Error(-32603, "no list")
				return
			}
			list(x)
		}
		other := newAppServer(true, []string{tool("plain", "")}, nil)
		h := gatewaytest.Backends{"a": s, "b": other}.Open(t, nil)
		openAs(h, mcp.V20260728, `{}`).list()
		all := h.G.Definitions()
		h.G.ReadAppTools(t.Context(), all)
		if a := all.Servers[0]; a.Known || !strings.Contains(a.Reason, "its tools for clients that render apps: tools/list: no list") {
			t.Errorf("a is %+v", a)
		}
		if b := all.Servers[1]; !b.Known {
			t.Errorf("b, which has no app, is %+v", b)
		}
	})
}

// Explain has what becomes of each of the two definitions, with its difference.
func TestExplainFaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAppServer(true, []string{showPlain, appOnly("refresh")}, []string{changedText(showUI), page("more"), appOnly("refresh")})
		cfg := lockFaces(t, "", map[pins.Face][]string{pins.Plain: {showPlain, appOnly("refresh")}, pins.UI: {showUI}})
		h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s)})
		openAs(h, mcp.V20260728, `{}`).list()
		if x := h.G.Explain("b__show", ""); len(x.Items) != 1 {
			t.Errorf("before a client renders apps: %+v", x.Items)
		}
		openAs(h, mcp.V20260728, rendering).list()
		openAs(h, mcp.V20260728, `{"sampling":{},`+uiExtension+`}`).list() // which has the same lists
		for _, profile := range []string{"", "p"} {
			x := h.G.Explain("b__show", profile)
			if len(x.Items) != 2 || x.Items[0].Code != "" || x.Items[0].Changes != nil || x.Items[1].Code != code.ItemFrozen || !x.Items[1].Offered {
				t.Fatalf("b__show is explained as %+v", x.Items)
			}
			want := []signalbox.ExplainedChange{{Path: "/description", Old: "Shows a page.", New: "ATTACK shows a page."}}
			if diff := cmp.Diff(want, x.Items[1].Changes); diff != "" {
				t.Error(diff)
			}
			if text := x.Items[1].Chain[1].Text; !strings.Contains(text, "for clients that render apps") {
				t.Errorf("its second step is %s", text)
			}
			if x := h.G.Explain("b__more", profile); x.Offered || len(x.Items) != 1 || x.Items[0].Code != code.ItemHeld {
				t.Errorf("b__more is explained as %+v", x.Items)
			}
		}
	})
}

// The only client of a gateway, which renders apps, has definitions that either line approves.
func TestFaceOfTheOnlyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAppServer(false, []string{showPlain, appOnly("refresh")}, []string{changedText(showUI), appOnly("refresh")})
		cfg := lockFaces(t, "", map[pins.Face][]string{pins.Plain: {showPlain, appOnly("refresh")}, pins.UI: {showUI}})
		h := gatewaytest.Open(t, *cfg, signalbox.Options{OneClient: true, Transport: gatewaytest.ServeBackends(t, http.HandlerFunc(s.ServeHTTP))})
		openAs(h, mcp.V20250618, rendering).wantShow(showUI)
		x := h.G.Explain("b__show", "")
		if len(x.Items) != 1 || x.Items[0].Code != code.ItemFrozen || len(x.Items[0].Changes) != 1 || x.Items[0].Changes[0].Old != "Shows a page." {
			t.Errorf("explained as %+v", x.Items)
		}
		all := h.G.Definitions()
		h.G.ReadAppTools(t.Context(), all)
		if len(all.Items) != 2 || all.Items[0].Face != "ui" || all.Items[0].State != string(pins.Frozen) || all.Items[1].State != string(pins.Approved) {
			t.Errorf("its definitions are %+v", all.Items)
		}
	})
}
