// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// stagedBackend is a server with a tool. Each handshake takes three seconds. The response
// to a call begins after two and ends after another one. The first calls are refused as
// too many, as often as busy says.
type stagedBackend struct {
	served *server.Server
	busy   int
}

func newStagedBackend(t *testing.T) *stagedBackend {
	b := &stagedBackend{served: server.New(cannedServer(), server.Config{AllowedHosts: []string{"b"}})}
	t.Cleanup(func() {
		if err := b.served.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *stagedBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // from memory
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case bytes.Contains(body, []byte(`"method":"initialize"`)):
		time.Sleep(3 * time.Second)
	case bytes.Contains(body, []byte(`"method":"tools/call"`)) && b.busy > 0:
		b.busy--
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case bytes.Contains(body, []byte(`"method":"tools/call"`)):
		answer := httptest.NewRecorder()
		b.served.ServeHTTP(answer, r)
		time.Sleep(2 * time.Second)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Second)
		_, _ = w.Write(answer.Body.Bytes())
		return
	}
	b.served.ServeHTTP(w, r)
}

// staged is a gateway in front of a stagedBackend, with a client of one era.
type staged struct {
	*gatewaytest.Gateway
	backend *stagedBackend
	call    func(tool string) gatewaytest.Response
}

// eachCell runs f for each combination of the eras of client and backend.
func eachCell(t *testing.T, f func(t *testing.T, s *staged, client, backend string)) {
	for _, era := range []string{"legacy", "modern"} {
		for _, client := range []string{"legacy", "modern"} {
			t.Run(client+" to "+era, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &staged{backend: newStagedBackend(t)}
					s.Gateway = gatewaytest.Backends{"b": s.backend}.Open(t, func(cfg *config.Config) { cfg.Servers[0].Era = era })
					time.Sleep(time.Minute) // the lists are known
					var session gatewaytest.Header
					if client == "legacy" {
						session = s.Legacy()
					}
					s.call = func(tool string) gatewaytest.Response {
						if client == "modern" {
							return s.PostModern("1", "tools/call", tool, `"arguments":{"a":1}`)
						}
						return s.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"`+tool+`","arguments":{"a":1}}`), session)
					}
					defer time.Sleep(time.Minute) // the backend ends what it has begun
					f(t, s, client, era)
				})
			})
		}
	}
}

// latest returns the newest call that the gateway remembers.
func latest(t *testing.T, g *signalbox.Gateway) signalbox.CallRecord {
	t.Helper()
	known := g.Calls(signalbox.CallFilter{Most: 1})
	if len(known.Calls) != 1 {
		t.Fatal("no call is remembered")
	}
	return known.Calls[0]
}

// wantStages compares the stages of a call in seconds; -1 is one that is not known.
func wantStages(t *testing.T, c *signalbox.CallRecord, want ...float64) {
	t.Helper()
	for i, ms := range []*float64{c.Admitted, c.Resolved, c.Leased, c.Sent, c.FirstByte, c.LastByte, c.Delivered} {
		got := -1.0
		if ms != nil {
			got = *ms / 1000
		}
		if got != want[i] {
			t.Errorf("stage %d of %s after %v s, want %v", i, c.ID, got, want[i])
		}
	}
}

// The stages of a call are when things happened, in all combinations of eras.
func TestStagesOfACall(t *testing.T) {
	eachCell(t, func(t *testing.T, s *staged, client, era string) {
		versions := map[string]mcp.Version{"legacy": mcp.V20251125, "modern": mcp.V20260728}
		opening := 0.0
		if era == "legacy" {
			opening = 3 // its session is opened
		}
		for range 2 {
			if got := s.call("b__add"); got.Status != http.StatusOK {
				t.Fatal(got)
			}
			synctest.Wait()
			c := latest(t, s.G)
			wantStages(t, &c, 0, 0, opening, opening, opening+2, opening+3, opening+3)
			if c.Handshake != opening*1000 || c.Start != 0 || c.Millis != (opening+3)*1000 || c.Attempts != 1 || c.Asks != 0 {
				t.Errorf("%+v", c)
			}
			if c.Method != "tools/call" || c.Name != "b__add" || c.Backend != "b" || c.Outcome != "ok" || c.Code != 0 || c.Delivery != "" ||
				c.ClientVersion != versions[client] || c.BackendVersion != versions[era] || c.RequestBytes < 30 || c.ResponseBytes < 10 {
				t.Errorf("%+v", c)
			}
			if client == "legacy" && c.Client != "test 1" {
				t.Errorf("client %q", c.Client)
			}
			opening = 0 // the session is there
		}
	})
}

// The stages are those of the last attempt, and the wait for it counts as one for a
// connection.
func TestStagesOfALaterAttempt(t *testing.T) {
	eachCell(t, func(t *testing.T, s *staged, _, _ string) {
		s.call("b__add")
		s.backend.busy = 1
		if got := s.call("b__add"); got.Status != http.StatusOK {
			t.Fatal(got)
		}
		synctest.Wait()
		c := latest(t, s.G)
		if c.Attempts != 2 || c.Leased == nil || *c.Leased <= 0 || *c.Leased != *c.Sent || math.Round(*c.LastByte-*c.Sent) != 3000 {
			t.Errorf("%+v; leased %v, sent %v, ended %v", c, c.Leased, c.Sent, c.LastByte)
		}
	})
}

// An error of the gateway has the id of its call, in the text and in the data, in all
// combinations of eras. Errors before a request is taken have none.
func TestErrorsNameTheCall(t *testing.T) {
	id := regexp.MustCompile(` \(call ([0-9a-z]{5}-[0-9a-z]{5})\)","data":\{(?:[^}]*,)?"call":"([0-9a-z]{5}-[0-9a-z]{5})"\}`)
	eachCell(t, func(t *testing.T, s *staged, _, _ string) {
		check := func(tool, outcome string) {
			t.Helper()
			got := s.call(tool)
			found := id.FindStringSubmatch(got.Body)
			if found == nil || found[1] != found[2] {
				t.Fatalf("%s: %s", tool, got.Body)
			}
			want, _ := mcp.ParseCallID(found[1])
			c, ok := s.G.Call(want)
			if !ok || c.Name != tool || c.Outcome != outcome || c.Millis > 0 && outcome == "error" {
				t.Errorf("%s: %+v", tool, c)
			}
		}
		check("b__nosuch", "error")
		check("nosuch", "error")
		s.backend.busy = 100
		check("b__add", "failed")
		if c := latest(t, s.G); c.Reason == "" || c.Code != mcp.CodeBackendUnavailable || c.Delivery != string(mcp.NotDispatched) || c.LastByte != nil {
			t.Errorf("%+v", c)
		}
		recorded := s.G.Calls(signalbox.CallFilter{}).Recorded
		for _, body := range []string{`{`, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`} {
			if got := s.Post(body); strings.Contains(got.Body, "call ") || got.Status/100 != 4 {
				t.Errorf("%s: %d %s", body, got.Status, got.Body)
			}
		}
		if n := s.G.Calls(signalbox.CallFilter{}).Recorded; n != recorded {
			t.Errorf("%d requests were recorded that were not taken", n-recorded)
		}
	})
}

// An error of a backend passes as it is.
func TestErrorsOfBackendsDoNotNameTheCall(t *testing.T) {
	g := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "shop", Handler: outcomeServer()}}})
	for name, want := range map[string]bool{"shop__barred": false, "shop__far": true, "shop__panics": true, "shop__nosuch": true} {
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Serve(t.Context(), req, nil)
		c := latest(t, g)
		if got := strings.HasSuffix(mcp.ToWire(err).Message, " (call "+c.ID+")"); got != want {
			t.Errorf("%s: %v; call %s", name, err, c.ID)
		}
	}
}

// A gateway behind another one in the same process has its own ids and records, and leaves
// the stages of the other alone.
func TestCallsOfNestedGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if req.Method == "tools/call" {
				time.Sleep(time.Second)
			}
			return cannedServer().Serve(ctx, req, caller)
		})
		inner := gatewaytest.New(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "b", Handler: slow}}})
		outer := gatewaytest.Open(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "in", Handler: inner}}})
		time.Sleep(time.Minute)
		if got := outer.PostModern("1", "tools/call", "in__b__add", ""); got.Status != http.StatusOK {
			t.Fatal(got)
		}
		synctest.Wait()
		first, second := latest(t, outer.G), latest(t, inner)
		if first.ID == second.ID || first.Name != "in__b__add" || second.Name != "b__add" || first.Millis != 1000 || second.Millis != 1000 {
			t.Errorf("%+v\n%+v", first, second)
		}
		wantStages(t, &first, 0, 0, -1, -1, -1, -1, 1)
		wantStages(t, &second, -1, -1, -1, -1, -1, -1, -1)
	})
}

// The answer of a call is not delivered if its client has gone.
func TestCallOfAClientThatLeaves(t *testing.T) {
	eachCell(t, func(t *testing.T, s *staged, client, _ string) {
		if client == "legacy" {
			return // a disconnect cancels nothing there, and the answer is kept
		}
		s.call("b__add")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		body, headers := gatewaytest.ModernRequest("1", "tools/call", "b__add", "")
		if res, err := s.HTTP.Do(s.Request(ctx, http.MethodPost, body, headers)); err == nil {
			res.Body.Close()
			t.Fatal("the client has an answer")
		}
		synctest.Wait()
		c := latest(t, s.G)
		wantStages(t, &c, 0, 0, 0, 0, -1, -1, -1)
		if c.Outcome != "cancelled" || c.Millis != 1000 || c.Delivery != string(mcp.Unknown) {
			t.Errorf("%+v", c)
		}
	})
}

// Calls are logged as they are recorded. Of too many at once some are counted instead, and
// none is lost silently.
func TestLoggedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logtest.Log)
		g := gatewaytest.New(t, config.Config{}, signalbox.Options{
			InProcess: []signalbox.InProcess{{Name: "b", Handler: cannedServer()}}, LogCalls: true, Logger: slog.New(log.Handler()),
		})
		time.Sleep(time.Minute)
		req, err := mcp.NewRequest("tools/call", []byte(`{"name":"b__add","arguments":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			if _, err := g.Serve(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		var logged []string
		for _, line := range log.Lines() {
			if strings.Contains(line, "msg=call ") {
				logged = append(logged, line)
			}
		}
		if len(logged) != 50 || log.Count(`msg="log records dropped: too many at once" message=call count=10 about=b`) != 1 {
			t.Errorf("%d calls are logged; %q", len(logged), log.Lines())
		}
		known := g.Calls(signalbox.CallFilter{}).Calls
		slices.Reverse(known)
		for i, line := range logged {
			if want := "level=INFO msg=call call=" + known[i].ID + " method=tools/call name=b__add backend=b outcome=ok durationMs=0"; line != want {
				t.Errorf("got %s\nwant %s", line, want)
			}
		}
	})
}

// With metrics.tools the durations have the names of tools that are offered, and only those.
func TestDurationsByTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cfg config.Config
		b := newStagedBackend(t)
		s := gatewaytest.Backends{"b": b}.Open(t, func(c *config.Config) {
			c.Metrics.Tools = true
			cfg = *c
		})
		time.Sleep(time.Minute) // the lists are known
		defer time.Sleep(time.Minute)
		call := func(tool string) { s.PostModern("1", "tools/call", tool, `"arguments":{"a":1}`) }
		wantCounts := func(what string, want map[string]float64) {
			t.Helper()
			time.Sleep(time.Minute)
			got := metricsOf(t, s.G)
			maps.DeleteFunc(got, func(name string, n float64) bool {
				return n == 0 || !strings.Contains(name, "_operation_duration_seconds_count") || !strings.Contains(name, `"tools/call"`)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s:\n%s", what, diff)
			}
		}
		reload := func(change func()) {
			t.Helper()
			cfg.Servers = slices.Clone(cfg.Servers)
			change()
			if err := s.G.Reload(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		call("b__add")
		call("b__nosuch")
		call(strings.Repeat("x", 100))
		unknown := `mcp_server_operation_duration_seconds_count{backend="",error_type="-32602",gen_ai_tool_name="",mcp_method_name="tools/call"}`
		server := `mcp_server_operation_duration_seconds_count{backend="b",error_type="",gen_ai_tool_name="b__add",mcp_method_name="tools/call"}`
		client := `mcp_client_operation_duration_seconds_count{backend="b",error_type="",gen_ai_tool_name="b__add",mcp_method_name="tools/call"}`
		wantCounts("with names", map[string]float64{unknown: 2, server: 1, client: 1})
		reload(func() { cfg.Instructions = "other" })
		call("b__add")
		wantCounts("after another change", map[string]float64{unknown: 2, server: 2, client: 2})

		reload(func() { cfg.Servers[0].Exclude = []string{"add"} })
		wantCounts("no longer offered", map[string]float64{unknown: 2})
		reload(func() { cfg.Servers[0].Exclude = nil })
		call("b__add")
		wantCounts("offered again", map[string]float64{unknown: 2, server: 1, client: 1})

		reload(func() { cfg.Metrics.Tools = false })
		call("b__add")
		without := func(name string) string {
			return strings.NewReplacer(`gen_ai_tool_name="b__add",`, "", `gen_ai_tool_name="",`, "").Replace(name)
		}
		wantCounts("without names", map[string]float64{without(unknown): 2, without(server): 1, without(client): 1})
	})
}

// The durations of calls, lists and sessions are in the metrics, by backend, method and
// kind of error.
func TestDurationsOfCalls(t *testing.T) {
	eachCell(t, func(t *testing.T, s *staged, client, era string) {
		s.call("b__add")
		s.call("b__nosuch")
		s.backend.busy = 100
		s.call("b__add")
		synctest.Wait()
		got := metricsOf(t, s.G)
		whole := 3.0
		if era == "legacy" {
			whole = 6
		}
		for name, want := range map[string]float64{
			`mcp_server_operation_duration_seconds_sum{backend="b",error_type="",mcp_method_name="tools/call"}`:        whole,
			`mcp_server_operation_duration_seconds_count{backend="b",error_type="",mcp_method_name="tools/call"}`:      1,
			`mcp_server_operation_duration_seconds_count{backend="",error_type="-32602",mcp_method_name="tools/call"}`: 1,
			`mcp_server_operation_duration_seconds_count{backend="b",error_type="1001",mcp_method_name="tools/call"}`:  1,
			`mcp_client_operation_duration_seconds_sum{backend="b",error_type="",mcp_method_name="tools/call"}`:        3,
			`mcp_client_operation_duration_seconds_count{backend="b",error_type="",mcp_method_name="tools/call"}`:      1,
			`signalbox_backend_failures_total{backend="b",code="` + latest(t, s.G).Reason + `"}`:                       1,
			`signalbox_backend_failures_total{backend="b",code="1001"}`:                                                0,
		} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
		for _, method := range []string{"tools/list", "resources/list"} { // again after an hour, or after a failure
			if n := got[`mcp_client_operation_duration_seconds_count{backend="b",error_type="",mcp_method_name="`+method+`"}`]; n == 0 {
				t.Errorf("%s of the gateway itself is not counted", method)
			}
		}
		time.Sleep(24 * time.Hour) // sessions expire
		got = metricsOf(t, s.G)
		if n := got["mcp_server_session_duration_seconds_count"]; n > 0 != (client == "legacy") {
			t.Errorf("%v sessions of clients have ended", n)
		}
		if n := got[`mcp_client_session_duration_seconds_count{backend="b"}`]; n > 0 != (era == "legacy") {
			t.Errorf("%v sessions at the backend have ended", n)
		}
	})
}

// A request of a gateway without a Timeline, as a program makes one, allocates nothing for
// its record; see TestPathAllocations. One with a Timeline neither.
func TestRecordedPathAllocations(t *testing.T) {
	g, reqs := pathGateway(t, 1, "tools/call", `{"name":"b000__add","arguments":{"a":1}}`)
	measure := func(times *mcp.Timeline) float64 {
		return leastAllocs(func() {
			req := *reqs["modern"]
			if times != nil {
				*times = mcp.Timeline{}
				times.Begin(time.Now())
				req.Timeline = times
			}
			if _, err := g.Serve(t.Context(), &req, ignoringCaller{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if without, with := measure(nil), measure(new(mcp.Timeline)); with > without {
		t.Errorf("%v allocations, %v without a Timeline", with, without)
	}
}
