// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// metricsOf returns our metrics as a scraper reads them.
func metricsOf(t *testing.T, g *signalbox.Gateway, header ...string) map[string]float64 {
	t.Helper()
	res := operate(g, "GET", "http://localhost/metrics", header...)
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Fatalf("/metrics: %s", res.Status)
	}
	values := make(map[string]float64)
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, number, ok := strings.Cut(lines.Text(), " ")
		if !ok || !strings.HasPrefix(name, "signalbox_") {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		values[name] = n
	}
	return values
}

// docs/metrics.md lists exactly these metrics with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.ConfigOf(1), signalbox.Options{})
	label := regexp.MustCompile(`="[^"]*"`)
	shown := make(map[string]bool)
	for name := range metricsOf(t, g) {
		shown[label.ReplaceAllString(name, "")] = true
	}
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(signalbox_[^`]+)` \\|").FindAllStringSubmatch(readFile(t, "docs/metrics.md"), -1) {
		documented[row[1]] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(shown))); diff != "" {
		t.Errorf("docs/metrics.md (-documented +there):\n%s", diff)
	}
}

// Every kind of event is counted from the start: an alert could not detect the first
// increase of a series that begins with it.
func TestEventsAreCountedFromTheStart(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "server/events.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"hidden_item", "foreign_task"}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "EventKind" {
				want = append(want, strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})
	var got []string
	for name := range metricsOf(t, gatewaytest.New(t, config.Config{}, signalbox.Options{})) {
		if kind, ok := strings.CutPrefix(name, `signalbox_events_total{kind="`); ok {
			got = append(got, strings.TrimSuffix(kind, `"}`))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(got, want); diff != "" || len(want) < 11 {
		t.Errorf("kinds of events (-counted +there are):\n%s", diff)
	}
}

func TestMetricsOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &faultyserver.HTTP{Sessions: true, On: map[string]func(*faultyserver.Exchange){
			"tools/list": func(x *faultyserver.Exchange) { x.Result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`) },
			"tools/call": func(x *faultyserver.Exchange) { x.Result(`{"content":[]}`) },
		}}
		cfg := gatewaytest.ConfigOf(1)
		cfg.Servers = append(cfg.Servers, config.Backend{Name: "gone", Command: "/no/such/program"})
		g := gatewaytest.New(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, server)})
		<-time.After(5 * time.Second)
		before := metricsOf(t, g)
		callTool(t, g, "b0__x")
		callTool(t, g, "b0__x")
		after := metricsOf(t, g)
		const requests = `signalbox_backend_requests_total{backend="b0"}`
		if got := after[requests] - before[requests]; got != 2 {
			t.Errorf("%v requests are counted for two calls", got)
		}
		for name, want := range map[string]float64{
			`signalbox_backend_live{backend="b0"}`:   1,
			`signalbox_backend_live{backend="gone"}`: 0,
			`signalbox_backends{state="live"}`:       1,
			`signalbox_backends{state="down"}`:       1,
			`signalbox_backends{state="starting"}`:   0,
			`signalbox_ready`:                        1,
			`signalbox_reload_refused`:               0,
			`signalbox_sessions`:                     0,
		} {
			if got, ok := after[name]; !ok || got != want {
				t.Errorf("%s: %v (there: %v), want %v", name, got, ok, want)
			}
		}
	})
}

// Two gateways in one process have separate metrics.
func TestMetricsOfTwoGateways(t *testing.T) {
	a := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	b := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	a.RefuseReload(signalbox.ErrClosed)
	const refused = `signalbox_reloads_total{result="refused"}`
	if one, other := metricsOf(t, a)[refused], metricsOf(t, b)[refused]; one != 1 || other != 0 {
		t.Errorf("%v and %v refusals, want 1 and 0", one, other)
	}
}

// Names from clients are not used as labels.
func TestMetricsHaveNoLabelsOfClients(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{})
	before := len(metricsOf(t, g))
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		if got := operate(g, "GET", "http://"+host+"/status").StatusCode; got != 403 {
			t.Fatalf("%s: %d, want 403", host, got)
		}
	}
	after := metricsOf(t, g)
	if len(after) != before {
		t.Errorf("%d series, %d before", len(after), before)
	}
	if got := after[`signalbox_events_total{kind="foreign_host"}`]; got != 3 {
		t.Errorf("%v foreign hosts are counted, want 3", got)
	}
}
