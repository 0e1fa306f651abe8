// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// Calls are logged on a terminal, and elsewhere if the configuration says so.
func TestServeLogsCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		terminal bool
		log      string
		want     string // the record of the call, or nothing
	}{
		{"terminal", true, "{}", `(?m)^\d\d:\d\d:\d\d call demo__echo [0-9.]+m?s ok  tester  [0-9a-z]{5}-[0-9a-z]{5}$`},
		{"terminal, off", true, "{calls: false}", ""},
		{"file", false, "{}", ""},
		{"file, on", false, "{calls: true}", `(?m)^time=\S+ level=INFO msg=call call=\S{11} method=tools/call name=demo__echo backend=demo client="tester 1" outcome=ok durationMs=[0-9.]+ trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__echo","arguments":{"text":"x"},"_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"1"},`+
				`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`+"\n")
			// The input ends after the answer: what is in flight at its end has limited time.
			end, answered := io.Pipe()
			e.Stdin = io.MultiReader(e.Stdin, end)
			e.Stdout = io.MultiWriter(e.Stdout, closeWhenWritten{answered})
			e.Terminal = func(any) bool { return tt.terminal }
			file := filepath.Join(e.Dir, "signalbox.yaml")
			commandtest.Write(t, file, "log: "+tt.log+"\nmcpServers: {demo: {command: signalbox, args: [serve, --stdio, --demo]}}\n")
			if code := runCommand(t.Context(), e, "serve", "--stdio", "--config", file); code != exitOK {
				t.Fatalf("exit code %d: %s", code, e.Err)
			}
			got := e.Err.String()
			if logged := regexp.MustCompile(`\bcall demo__echo|msg=call`).MatchString(got); logged != (tt.want != "") || tt.want != "" && !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("want %q, got:\n%s\nanswer: %s", tt.want, got, e.Out)
			}
		})
	}
}

// closeWhenWritten closes the Closer at the first write.
type closeWhenWritten struct{ io.Closer }

func (c closeWhenWritten) Write(p []byte) (int, error) { return len(p), c.Close() }
