// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// A trace is forwarded with its request to a server of either era, over HTTP and over
// lines. An invalid trace is omitted, and the rest of _meta is unmodified.
//
// H18+ 2026-07-28 basic/index: "When present, their values MUST follow W3C Trace
// Context and W3C Baggage formats respectively."
//
// H18- 2026-07-28 basic/index: "When present, their values MUST follow W3C Trace
// Context and W3C Baggage formats respectively."
func TestTracesGoWithTheirRequest(t *testing.T) {
	const good = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","baggage":"k=v"`
	const bad = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01","tracestate":"a=1","baggage":"k"`
	call := func(t *testing.T, c mcp.Handler, trace string) {
		t.Helper()
		req := request(t, "tools/call", `{"name":"echo","_meta":{"own/key":[1.0],`+trace+`,"progressToken":"p"}}`)
		if _, err := within(t, c, req, &recorder{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(t *testing.T, which, good, bad string) {
		t.Helper()
		for _, want := range []string{`"own/key":[1.0]`, `"traceparent":"00-0af7`, `"tracestate":"a=1"`, `"baggage":"k=v"`, `"progressToken":`} {
			if !strings.Contains(good, want) {
				t.Errorf("%s: %s lacks %s", which, good, want)
			}
		}
		if !strings.Contains(bad, `"own/key":[1.0]`) || !strings.Contains(bad, `"progressToken":`) {
			t.Errorf("%s: %s has lost more than the trace", which, bad)
		}
		if strings.Contains(bad, "trace") || strings.Contains(bad, "baggage") {
			t.Errorf("%s: %s still has a trace", which, bad)
		}
	}
	for _, modern := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: modern, Sessions: !modern}
			c := dialHTTP(t, s, client.Config{})
			call(t, c, good)
			first := last(s, "tools/call").Body
			call(t, c, bad)
			check(t, "http", first, last(s, "tools/call").Body)
		})
		inBubble(t, func(t *testing.T) {
			var seen []string
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){"tools/call": func(x *faultyserver.Line) {
				seen = append(seen, string(x.Msg.Params.Bytes()))
				x.Polite()
			}}}
			c, _ := dialLines(t, s, client.Config{})
			call(t, c, good)
			call(t, c, bad)
			check(t, "lines", seen[0], seen[1])
		})
	}
}
