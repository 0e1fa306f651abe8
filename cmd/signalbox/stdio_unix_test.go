// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// A client starts the gateway, gets instructions and tools, and leaves. It receives no
// notifications of changes, and nothing is written after it has left. A server that ignores
// the end of its input and SIGTERM delays the gateway for less than the 2 s after which
// clients kill it.
func TestServeOneClientOnPipes(t *testing.T) {
	t.Parallel()
	cmd := programCommand(t, "serve", "--stdio")
	commandtest.Write(t, filepath.Join(cmd.Dir, "signalbox.yaml"), "mcpServers:\n"+
		"  a: {command: mcpchild, args: [x]}\n  b: {command: mcpchild, args: [y, /dev/null, stubborn]}\n")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said commandtest.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for i, step := range []struct{ method, params, want string }{
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`, "say hello"},
		{"tools/list", `{}`, `"b__y"`},
		{"ping", `{}`, `{}`},
	} {
		if i == 1 {
			fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		fmt.Fprintf(stdin, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", i, step.method, step.params)
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, i)) || !strings.Contains(lines.Text(), step.want) {
			t.Fatalf("%s: %s, want %s; %s", step.method, lines.Text(), step.want, said.String())
		}
	}
	left := time.Now()
	stdin.Close()
	rest, err := io.ReadAll(stdout)
	if err != nil || len(rest) > 0 {
		t.Errorf("after the end of its input it wrote %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v, want exit code 0: %s", err, said.String())
	}
	if took := time.Since(left); took > 1900*time.Millisecond {
		t.Errorf("the end took %v, want less than 2s: %s", took, said.String())
	}
	if text := said.String(); strings.Contains(text, "child is up") || strings.Contains(text, "process started") {
		t.Errorf("said %q, want its own messages alone", text)
	}
}
