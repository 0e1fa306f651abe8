// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

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

// mapTool names the page of an app.
const mapTool = `{"name":"show","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://maps/app.html"}}}`

// mapServer is a server with an app. Its page is what page returns, as JSON text of a string.
type mapServer struct {
	*faultyserver.HTTP

	page, meta atomic.Pointer[string]
}

func newMapServer(modern bool) *mapServer {
	s := &mapServer{HTTP: &faultyserver.HTTP{Modern: modern, Sessions: !modern, Capabilities: `{"tools":{},"resources":{}}`}}
	s.set("<p>map</p>", `{}`)
	s.On = map[string]func(*faultyserver.Exchange){
		"tools/list":     gatewaytest.ResultHandler(`{"tools":[` + mapTool + `]}`),
		"resources/list": gatewaytest.ResultHandler(`{"resources":[{"uri":"ui://maps/app.html","name":"app"},{"uri":"ui://maps/other.html","name":"other"}]}`),
		"resources/read": func(x *faultyserver.Exchange) {
			uri, _ := x.Msg.Params.Text(mcp.FieldURI)
			x.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/html;profile=mcp-app","text":%q,"_meta":%s}]}`, uri, *s.page.Load(), *s.meta.Load()))
		},
	}
	return s
}

func (s *mapServer) set(page, meta string) { s.page.Store(&page); s.meta.Store(&meta) }

// approvedMeta and changedMeta are the _meta of a page: the second lets it connect elsewhere.
const (
	approvedMeta = `{"ui":{"csp":{"connectDomains":[]}}}`
	changedMeta  = `{"ui":{"csp":{"connectDomains":["https://ATTACK"]}}}`
)

// lockMap writes the lock file of a map server with a page, and its configuration.
func lockMap(t *testing.T, page, more string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "signalbox.yaml")
	l, d := pins.NewLock(), pins.NewDigester(nil)
	l.Approve(pins.Key{Server: "maps", Kind: pins.Tool, Name: "show"}, d.Of([]byte(mapTool)))
	if page != "" {
		definition := fmt.Sprintf(`{"mimeType":"text/html;profile=mcp-app","text":%q,"_meta":%s}`, page, approvedMeta)
		l.Approve(pins.Key{Server: "maps", Kind: pins.Page, Name: "ui://maps/app.html"}, d.Of([]byte(definition)))
	}
	return loadLocked(t, file, l, "mcpServers: {maps: {url: \"http://maps/mcp\"}}\nprofiles: {p: {servers: [maps]}}\n"+more)
}

// loadLocked writes a lock file and a configuration beside it, and reads them.
func loadLocked(t *testing.T, file string, l *pins.Lock, text string) *config.Config {
	t.Helper()
	writeText(t, config.LockFile(file), string(l.Format()))
	writeText(t, file, text)
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// C12: the HTML of an app that is not the approved one reaches no client, in and in front of both eras, whatever its size. The
// operator gets one record of it.
func TestC12PageOfAnApp(t *testing.T) {
	large := strings.Repeat("<p>map</p>", 12_000)
	for _, modern := range []bool{true, false} {
		for name, tt := range map[string]struct {
			approved, page, meta, more string
			offered                    bool
		}{
			"approved":                 {"<p>map</p>", "<p>map</p>", approvedMeta, "", true},
			"approved, large":          {large, large, approvedMeta, "", true},
			"changed":                  {"<p>map</p>", "<p>ATTACK</p>", approvedMeta, "", false},
			"changed, large":           {large, large + "ATTACK", approvedMeta, "", false},
			"other permissions":        {"<p>map</p>", "<p>map</p>", changedMeta, "", false},
			"new":                      {"", "<p>ATTACK</p>", approvedMeta, "", false},
			"changed, and filters":     {large, large + "ATTACK", approvedMeta, "filters: [{on: ['*'], in: results, redact: [{match: PRIVATE, with: X}]}]\n", false},
			"approved, and filters":    {large, large, approvedMeta, "filters: [{on: ['*'], in: results, redact: [{match: PRIVATE, with: X}]}]\n", true},
			"changed, warn":            {"<p>map</p>", "<p>ATTACK</p>", approvedMeta, "pins: {changed: warn}\n", true},
			"changed, pages allowed":   {"<p>map</p>", "<p>ATTACK</p>", approvedMeta, "pins: {pages: allow}\n", true},
			"new, pages allowed":       {"", "<p>ATTACK</p>", approvedMeta, "pins: {pages: allow}\n", true},
			"new allowed":              {"", "<p>ATTACK</p>", approvedMeta, "pins: {new: allow}\n", true},
			"changed, and new allowed": {"<p>map</p>", "<p>ATTACK</p>", approvedMeta, "pins: {new: allow}\n", false},
		} {
			t.Run(fmt.Sprintf("modern %v, %s", modern, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newMapServer(modern)
					s.set(tt.page, tt.meta)
					var log logtest.Log
					cfg := lockMap(t, tt.approved, tt.more)
					h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s), Logger: slog.New(log.Handler())})
					all := shopClients(h, nil)
					for era, c := range shopClients(h.At("p"), nil) {
						all[era+" of a profile"] = c
					}
					for era, c := range all {
						read := func(uri string) string {
							if c.sess != nil {
								return c.Post(gatewaytest.LegacyRequest("1", "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)), c.sess).Body
							}
							return c.PostModern("1", "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri)).Body
						}
						got := read("ui://maps/app.html")
						switch {
						case tt.offered && (!strings.Contains(got, tt.page) || !strings.Contains(got, tt.meta)):
							t.Errorf("%s: it is withheld: %.300s", era, got)
						case !tt.offered && (strings.Contains(got, "ATTACK") || strings.Contains(got, "<p>") || !strings.Contains(got, code.ItemHeld) || !strings.Contains(got, "signalbox approve")):
							t.Errorf("%s: got %.300s, want an error", era, got)
						}
						if got := read("ui://maps/maps/app.html"); tt.offered != strings.Contains(got, "<p>") {
							t.Errorf("%s: by the URI that clients see: %.300s", era, got)
						}
						if got := read("UI://maps/maps/%61pp.html"); !tt.offered && strings.Contains(got, "ATTACK") {
							t.Errorf("%s: another spelling has %.300s", era, got)
						}
						// What no tool names is no page of an app.
						if got := read("ui://maps/other.html"); !strings.Contains(got, tt.page) {
							t.Errorf("%s: another resource has %.300s", era, got)
						}
					}
					reported := !strings.Contains(name, "approved") && !strings.HasPrefix(name, "new") && !strings.Contains(tt.more, "new: allow")
					problems := slices.DeleteFunc(h.G.Status().Problems, func(p string) bool { return !strings.Contains(p, "page ui://maps/app.html") })
					if isReported := len(problems) == 1 && strings.Contains(problems[0], code.ItemHeld); isReported != (reported || !tt.offered) {
						t.Errorf("problems %q", problems)
					}
					if err := h.G.Close(); err != nil { // which writes the rest of the log
						t.Error(err)
					}
					if n := log.Count(`"page of an app is not the approved one" backend=maps`); n != len(problems) || log.Count("ATTACK") != 0 {
						t.Errorf("%d records in the log: %s", n, strings.Join(log.Lines(), ""))
					}
				})
			})
		}
	}
}

// ReadPages reads the pages that tools name, compares them, and names those that cannot be read.
func TestReadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMapServer(true)
		s.set("<p>new</p>", approvedMeta)
		s.On["tools/list"] = gatewaytest.ResultHandler(`{"tools":[` + mapTool + `,{"name":"b","inputSchema":{"type":"object"},"_meta":{"ui/resourceUri":"ui://maps/away.html"}}]}`)
		answer := s.On["resources/read"]
		s.On["resources/read"] = func(x *faultyserver.Exchange) {
			if uri, _ := x.Msg.Params.Text(mcp.FieldURI); strings.Contains(uri, "away") {
				x.Error(-32002, "no such resource")
				return
			}
			answer(x)
		}
		cfg := lockMap(t, "<p>map</p>", "")
		h := gatewaytest.Open(t, *cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, s)})
		h.PostModern("1", "tools/list", "", "")
		all := h.G.Definitions()
		h.G.ReadPages(t.Context(), all)
		var got []string
		for _, it := range all.Items {
			got = append(got, fmt.Sprintf("%s %s %s %t", it.Kind, it.Name, it.State, it.Held))
		}
		want := []string{"tool show approved false", "tool b new true", "page ui://maps/app.html changed true"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if p := all.Items[2].Listed; p != `{"mimeType":"text/html;profile=mcp-app","text":"<p>new</p>","_meta":`+approvedMeta+`}` {
			t.Errorf("the page is %s", p)
		}
		if unread := all.Servers[0].Unread; len(unread) != 1 || unread[0].URI != "ui://maps/away.html" || !strings.Contains(unread[0].Reason, "no such resource") {
			t.Errorf("not read: %+v", unread)
		}
	})
}
