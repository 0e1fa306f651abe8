// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// text returns the metrics as Prometheus reads them.
func text(t *testing.T, m *Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// Each operation is in the bucket of its duration, at the bound too, and in the sum.
func TestDurations(t *testing.T) {
	m := newMetrics(t, nil)
	o := m.ServerOperations("a")
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 10 * time.Millisecond, 300 * time.Second, 301 * time.Second} {
		o.Observe("tools/call", NoError, d)
	}
	m.ServerOperations("a").Observe("tools/call", ToolError, time.Second) // the same backend
	m.ServerOperations("").Observe("tools/list", ErrorType(mcp.CodeLimit), time.Second)
	m.ClientOperations("a").Observe("tools/call", ErrorType(-7), time.Second)
	o.Observe("sampling/createMessage", NoError, time.Second) // not measured
	o.Observe("tools/call", "what a backend says", time.Second)
	m.ClientSessions("a")(90 * time.Second)
	m.ServerSession(time.Hour)
	m.AddBackend("a")
	m.BackendFailure("a", "a code")
	got := text(t, m)
	for _, want := range []string{
		`# TYPE mcp_server_operation_duration_seconds histogram`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="0.001"} 2`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="0.002"} 3`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="0.005"} 3`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="0.01"} 4`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="120"} 4`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="300"} 5`,
		`mcp_server_operation_duration_seconds_bucket{backend="a",error_type="",mcp_method_name="tools/call",le="+Inf"} 6`,
		`mcp_server_operation_duration_seconds_sum{backend="a",error_type="",mcp_method_name="tools/call"} 601.012000001`,
		`mcp_server_operation_duration_seconds_count{backend="a",error_type="",mcp_method_name="tools/call"} 6`,
		`mcp_server_operation_duration_seconds_count{backend="a",error_type="tool_error",mcp_method_name="tools/call"} 1`,
		`mcp_server_operation_duration_seconds_count{backend="",error_type="1006",mcp_method_name="tools/list"} 1`,
		`mcp_client_operation_duration_seconds_count{backend="a",error_type="",mcp_method_name="tools/call"} 0`,
		`mcp_client_operation_duration_seconds_count{backend="a",error_type="_OTHER",mcp_method_name="tools/call"} 1`,
		`mcp_client_session_duration_seconds_bucket{backend="a",le="120"} 1`,
		`mcp_server_session_duration_seconds_bucket{le="300"} 0`,
		`mcp_server_session_duration_seconds_sum 3600`,
		`signalbox_backend_failures_total{backend="a",code="1001"} 0`,
		`signalbox_backend_failures_total{backend="a",code="a code"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(got, "sampling") || strings.Contains(got, "what a backend says") {
		t.Error("a label has a value from outside")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// An operation is counted once, whichever caller is first, and costs no allocation.
func TestDurationsConcurrently(t *testing.T) {
	m := newMetrics(t, nil)
	o := m.ServerOperations("a")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				o.Observe("prompts/get", Cancelled, time.Millisecond)
				m.ServerOperations("a")
			}
			text(t, m)
		})
	}
	wg.Wait()
	if got := text(t, m); !strings.Contains(got, `_count{backend="a",error_type="cancelled",mcp_method_name="prompts/get"} 800`) {
		t.Error(got)
	}
	if n := testing.AllocsPerRun(100, func() { o.Observe("prompts/get", ErrorType(mcp.CodeSessionEnded), time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Tools have series of their own, but for too many, until they are no longer offered.
func TestDurationsByTool(t *testing.T) {
	m := newMetrics(t, nil)
	o := m.ServerOperations("a")
	o.ObserveTool("off", NoError, time.Second)
	if got := text(t, m); strings.Contains(got, "gen_ai_tool_name") || !strings.Contains(got, `_server_operation_duration_seconds_count{backend="a",error_type="",mcp_method_name="tools/call"} 1`) {
		t.Error(got)
	}
	m.UseTools(true)
	m.UseTools(true)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range maxTools + 10 {
				o.ObserveTool(strconv.Itoa(i), NoError, time.Millisecond)
			}
			text(t, m)
		})
	}
	wg.Wait()
	m.ClientOperations("a").ObserveTool("7", ToolError, time.Second)
	got := text(t, m)
	for _, want := range []string{
		`_server_operation_duration_seconds_count{backend="a",error_type="",gen_ai_tool_name="7",mcp_method_name="tools/call"} 4`,
		`_server_operation_duration_seconds_count{backend="a",error_type="",gen_ai_tool_name="",mcp_method_name="tools/call"} 41`,
		`_client_operation_duration_seconds_count{backend="a",error_type="tool_error",gen_ai_tool_name="7",mcp_method_name="tools/call"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if n := strings.Count(got, `_server_operation_duration_seconds_count{`); n != maxTools+1 {
		t.Errorf("%d series", n)
	}
	if n := testing.AllocsPerRun(100, func() { o.ObserveTool("7", NoError, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	m.KeepTools(func(backend, name string) bool { return backend == "a" && name == "8" })
	if got := text(t, m); strings.Contains(got, `"7"`) || !strings.Contains(got, `gen_ai_tool_name="8"`) {
		t.Error(got)
	}
	m.UseTools(false)
	if got := text(t, m); strings.Contains(got, "gen_ai_tool_name") {
		t.Error(got)
	}
}

func BenchmarkObserve(b *testing.B) {
	m, err := New(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	o := m.ServerOperations("a")
	b.ReportAllocs()
	for b.Loop() {
		o.Observe("tools/call", NoError, 14*time.Millisecond)
	}
}
