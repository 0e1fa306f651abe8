// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

func TestPart(t *testing.T) {
	for stack, want := range map[string]string{
		"runtime.memclr runtime.mallocgc " + module + "/client.read":                                                                                 "allocation",
		"runtime.scanobject runtime.gcAssistAlloc runtime.mallocgc " + module + "/client.read":                                                       "garbage collection",
		"runtime.copystack runtime.newstack runtime.slicebytetostring " + module + "/client.read":                                                    "stacks that grow",
		"internal/runtime/syscall.Syscall6 syscall.write internal/poll.(*FD).Write net/http.(*persistConn).Write":                                    "system calls, sockets",
		"runtime.findRunnable runtime.schedule runtime.park_m runtime.mcall":                                                                         "scheduling",
		"sync.(*Mutex).Lock context.(*cancelCtx).propagateCancel " + module + "/server.(*Server).run":                                                "contexts and timers",
		"runtime.memmove bytes.Clone " + module + "/internal/session.(*Session).Begin " + module + "/server.post":                                    "internal/session",
		"strings.Cut " + module + "/mcp.Parse.func1 " + module + "/client.parse":                                                                     "mcp",
		"sort.Sort " + module + ".(*Gateway).Serve " + module + "/server.(*Server).run":                                                              "gateway",
		"net/textproto.readMIMEHeader net/http.readRequest net/http.(*conn).readRequest net/http.(*conn).serve":                                      "net/http, inbound",
		"net/textproto.readMIMEHeader net/http.ReadResponse net/http.(*persistConn).readLoop":                                                        "net/http, outbound",
		"syscall.write " + module + "/internal/http1.(*socket).writeNow internal/poll.(*FD).RawWrite " + module + "/internal/http1.(*exchange).send": "system calls, sockets",
		"net/textproto.readMIMEHeader net/http.ReadResponse " + module + "/internal/http1.(*exchange).receive net/http.(*conn).serve":                "net/http, outbound",
		"net/http.Header.writeSubset net/http.(*Request).write " + module + "/internal/http1.(*exchange).send":                                       "net/http, outbound",
		"net/http.Header.Clone net/http.(*Client).do " + module + "/client.(*endpoint).do net/http.(*conn).serve":                                    "net/http, outbound",
		"bufio.(*Reader).Read net/http.(*connReader).Read net/http.(*conn).serve":                                                                    "net/http, inbound",
		"os.main": "the rest",
	} {
		if got := part(strings.Fields(stack)); got != want {
			t.Errorf("%s: %q, want %q", stack, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	functions := map[string]*profile.Function{}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
	}
	add := func(time int64, names ...string) {
		s := &profile.Sample{Value: []int64{1, time}}
		for _, name := range names {
			f := functions[name]
			if f == nil {
				f = &profile.Function{ID: uint64(len(functions) + 1), Name: name}
				functions[name] = f
				p.Function = append(p.Function, f)
				p.Location = append(p.Location, &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}})
			}
			s.Location = append(s.Location, p.Location[f.ID-1])
		}
		p.Sample = append(p.Sample, s)
	}
	add(60, "runtime.memclr", "runtime.mallocgc")
	add(30, "bytes.Equal", module+"/mcp.Parse")
	add(10, "runtime.mallocgc", module+"/mcp.Parse")
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Of(&b)
	if diff := cmp.Diff(got, []Share{{"allocation", 0.7}, {"mcp", 0.3}}); err != nil || diff != "" {
		t.Errorf("%v (-got +want):\n%s", err, diff)
	}
	if _, err := Of(strings.NewReader("no profile")); err == nil {
		t.Error("no error for what is no profile")
	}
}
