// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/pins"
	"github.com/signalbox-mcp/signalbox/mux"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// listPeer is a gateway over HTTP that lists are measured of.
type listPeer struct{ url string }

// openListPeer returns a gateway that knows all its tools.
func openListPeer(b *testing.B, cfg config.Config) (*signalbox.Gateway, *listPeer) {
	b.Helper()
	g, err := signalbox.New(cfg, signalbox.Options{})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewServer(withProfileOfPath(g))
	b.Cleanup(func() {
		front.Close()
		g.Close()
	})
	return g, &listPeer{url: front.URL + "/mcp"}
}

// withProfileOfPath serves the profile that the path of a request names.
func withProfileOfPath(g *signalbox.Gateway) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, name, ok := strings.Cut(r.URL.Path, "/p/"); ok {
			r = r.WithContext(signalbox.WithProfile(r.Context(), name))
		}
		g.ServeHTTP(w, r)
	})
}

// list makes a tools/list as ann, and returns the time that it takes and the list.
func (p *listPeer) list(b *testing.B, profile string) (time.Duration, string) {
	b.Helper()
	body, hs := gatewaytest.ModernRequest("1", "tools/list", "", "")
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, p.url+profile, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, headers := range []gatewaytest.Header{hs, gatewaytest.WithToken("ann")} {
		for name, value := range headers {
			r.Header.Set(name, value)
		}
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	took := time.Since(began)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%v, %s %s", err, res.Status, text)
	}
	return took, string(text)
}

// withAll adds what may change a list or a call: a lock file of all definitions, a policy that asks, and filters.
func withAll(b *testing.B, plain config.Config, defined *signalbox.Definitions) config.Config {
	b.Helper()
	file := filepath.Join(b.TempDir(), "signalbox.yaml")
	l, d := pins.NewLock(), pins.NewDigester(nil)
	servers := "mcpServers:\n"
	for _, s := range plain.Servers {
		servers += fmt.Sprintf("  %s: {url: %q}\n", s.Name, s.URL)
	}
	for _, s := range defined.Servers {
		l.SetServer(s.Name, pins.Server{Name: s.Is, Version: s.Version})
	}
	for _, it := range defined.Items {
		l.Approve(pins.Key{Server: it.Server, Kind: pins.Kind(it.Kind), Name: it.Name}, d.Of([]byte(it.Listed)))
	}
	for name, text := range map[string]string{file: servers, config.LockFile(file): string(l.Format())} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		b.Fatal(err)
	}
	cfg.Auth = plain.Auth
	cfg.Policy = config.Policy{Otherwise: config.PolicyDeny, Rules: []config.PolicyRule{
		{Name: "ann", Allow: `principal.name == "ann"`},
		{Name: "secrets", Deny: `principal.name != "boss"`, On: []string{"*secret*"}},
		{Name: "prod", Deny: `has(args.env) && args.env == "prod"`},
		{Name: "sure", Confirm: `item.annotations.destructiveHint == true || has(args.all)`},
	}}
	cfg.Filters = []config.Filter{
		redactFilter("[word]"),
		{In: config.FilterArguments, Refuse: `has(args.key) && args.key == "` + secretWord + `"`},
		{On: []string{"s1*"}, In: config.FilterResults, Mark: config.MarkUntrusted},
	}
	return *cfg
}

// BenchmarkListWithAll measures tools/list over HTTP, of 1000 tools of 20 servers and of the search view, of a gateway with
// pins, a policy, filters and questions, and of one without, in turns. The medians are compared in percent of the one without.
func BenchmarkListWithAll(b *testing.B) {
	var plain config.Config
	gatewaytest.WithPrincipals(&plain, "ann")
	for i := range 20 {
		var tools []mux.Item
		call := func(context.Context, *mux.Call) (*mux.Result, error) { return mux.Say("done"), nil }
		for n := range 50 {
			tools = append(tools, mux.Tool{
				Call: call, Name: fmt.Sprintf("tool_%d", n), Title: "A tool", Description: strings.Repeat("It does what its name is. ", 8),
				Annotations: mux.JSON(fmt.Sprintf(`{"destructiveHint":%t}`, n%10 == 0)),
			})
		}
		own := mux.New(tools...)
		edge := server.New(own, server.Config{})
		back := httptest.NewServer(edge)
		b.Cleanup(func() {
			back.Close()
			edge.Close()
			own.Close()
		})
		plain.Servers = append(plain.Servers, config.Backend{Name: fmt.Sprintf("s%d", i), URL: back.URL})
	}
	first, without := openListPeer(b, plain)
	_, want := without.list(b, "")
	_, with := openListPeer(b, withAll(b, plain, first.Definitions()))
	if _, got := with.list(b, ""); got != want || strings.Count(got, `"name":"s`) != 1000 {
		b.Fatalf("the lists have %d and %d bytes, and %d tools", len(got), len(want), strings.Count(got, `"name":"s`))
	}
	peers := [4]struct { // each gateway serves as many requests as the other
		*listPeer
		profile string
	}{{without, ""}, {with, ""}, {without, "/p/search"}, {with, "/p/search"}}
	var times [4][]time.Duration
	order := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		for _, at := range order.Perm(len(peers)) { // what comes before one must not count
			took, _ := peers[at].list(b, peers[at].profile)
			times[at] = append(times[at], took)
		}
	}
	for i, of := range []string{"list", "search"} {
		base, all := float64(median(times[2*i])), float64(median(times[2*i+1]))
		b.ReportMetric(base/1e3, "µs/"+of+"-without")
		b.ReportMetric(all/1e3, "µs/"+of+"-with")
		b.ReportMetric(100*all/base, "%/"+of)
	}
	b.ReportMetric(0, "ns/op") // of all four
}
