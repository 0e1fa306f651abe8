// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/recorder"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The record of a call has the number of the calls that it has made, and how the worst of them ended, whatever their
// order is. Requests that are no calls do not count.
func TestOuterCallHasTheWorst(t *testing.T) {
	shop := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		name, _ := req.Params.Text(mcp.FieldName)
		switch {
		case req.Method == "server/discover":
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case req.Method == "tools/list":
			var tools []string
			for _, name := range []string{"ok", "fails", "refuses", "away", "ended", "lost", "panics"} {
				tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
			}
			return mcp.NewResult([]byte(`{"tools":[` + strings.Join(tools, ",") + `]}`))
		case name == "fails":
			return mcp.NewResult([]byte(`{"content":[],"isError":true}`))
		case name == "refuses":
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "no")
		case name == "away":
			return nil, &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Message: "away"}
		case name == "ended":
			return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Completed, Message: "ended"}
		case name == "lost":
			return nil, &mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: "lost"}
		case name == "panics":
			panic("in a test")
		default:
			return mcp.NewResult([]byte(`{"content":[]}`))
		}
	})
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "s", Handler: shop}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	call := func(by *outerCall, method, name string) {
		params, err := mcp.ParseObject([]byte(`{"name":"` + name + `"}`))
		if err != nil {
			t.Error(err)
		}
		_, _ = g.inner(t.Context(), &mcp.Request{}, by, method, &params, noCaller{}) // how it ends is in the record
	}
	var all []string
	for _, next := range []struct{ name, outcome, delivery string }{ // from the best to the worst
		{"s__ok", "ok", ""},
		{"s__away", "failed", "not_dispatched"},
		{"s__fails", "tool_error", ""},
		{"s__refuses", "error", ""},
		{"s__ended", "failed", "completed"},
		{"s__lost", "failed", "unknown"},
	} {
		all = append(all, next.name)
		for _, order := range [][]string{all, append([]string{next.name}, all[:len(all)-1]...)} {
			by := new(outerCall)
			for _, name := range order {
				call(by, "tools/call", name)
			}
			call(by, "tools/list", "")
			var c recorder.Call
			by.record(&c)
			if c.Inner != len(order) || c.InnerOutcome != next.outcome || string(c.InnerDelivery) != next.delivery {
				t.Errorf("%v: %d calls, the worst %s %s; want %d, %s %s", order, c.Inner, c.InnerOutcome, c.InnerDelivery, len(order), next.outcome, next.delivery)
			}
		}
	}

	by := new(outerCall)
	var running sync.WaitGroup // waited for below; each ends with its call
	for range 50 {
		running.Go(func() { call(by, "tools/call", "s__ok") })
		running.Go(func() { call(by, "tools/call", "s__fails") })
	}
	running.Wait()
	call(by, "tools/call", "s__panics")
	var c recorder.Call
	by.record(&c)
	if c.Inner != 101 || c.InnerOutcome != "failed" || c.InnerDelivery != mcp.Unknown {
		t.Errorf("%d calls, the worst %s %s", c.Inner, c.InnerOutcome, c.InnerDelivery)
	}
}

// Calls are within one another four times: the fifth is refused, and nothing is sent for it.
func TestDepthOfInnerCalls(t *testing.T) {
	calls := 0
	shop := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			return mcp.NewResult([]byte(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`))
		}
		calls++
		return mcp.NewResult([]byte(`{"content":[]}`))
	})
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "s", Handler: shop}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	params, err := mcp.ParseObject([]byte(`{"name":"s__x"}`))
	if err != nil {
		t.Fatal(err)
	}
	outer := new(mcp.Request)
	for depth := 1; depth <= 5; depth++ {
		_, err := g.inner(t.Context(), outer, new(outerCall), "tools/call", &params, noCaller{})
		if most := min(depth, 4); calls != most || (err != nil) != (depth > most) {
			t.Errorf("depth %d: %d calls, %v", depth, calls, err)
		}
		if refused, _ := errors.AsType[*mcp.Error](err); depth > 4 && (refused == nil || refused.Code != mcp.CodeInvalidParams) {
			t.Errorf("depth %d: %v", depth, err)
		}
		outer = &mcp.Request{Outer: append(outer.Outer, mcp.OuterCall{Name: "call_tool"})}
	}
}
