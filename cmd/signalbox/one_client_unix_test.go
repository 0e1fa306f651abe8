// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// serveOnPipes starts a gateway for one client in the folder with its configuration.
func serveOnPipes(t *testing.T, dir string) (cmd *exec.Cmd, in io.WriteCloser, lines *bufio.Scanner) {
	t.Helper()
	cmd = programCommand(t, "serve", "--stdio")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewScanner(out)
}

// pipeClient is a client on the pipes of a gateway.
type pipeClient struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
	heard []string // the notifications received so far
}

// ask sends a line and returns its response. It records the messages before the response.
func (c *pipeClient) ask(line string) string {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	for c.lines.Scan() {
		if strings.Contains(c.lines.Text(), `"id":`) {
			return c.lines.Text()
		}
		c.heard = append(c.heard, c.lines.Text())
	}
	c.t.Fatalf("no answer to %s", line)
	return ""
}

// await reads until a notification that contains text is received.
func (c *pipeClient) await(text string) {
	c.t.Helper()
	for !strings.Contains(strings.Join(c.heard, "\n"), text) {
		if !c.lines.Scan() {
			c.t.Fatalf("not told of %s, but of %q", text, c.heard)
		}
		c.heard = append(c.heard, c.lines.Text())
	}
}

// A client on stdio has the same as with the server itself: one process, the tools for its
// capabilities, the instructions, and what the server adds in its session. A modern client
// with roots has another process for its calls, and what is added there.
func TestOneClientOnStdio(t *testing.T) {
	t.Parallel()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}`
	for _, tt := range []struct {
		name, capabilities string
		modern             bool
		processes          int
	}{
		{"legacy that cannot be asked", `{}`, false, 1},
		{"legacy that can be asked", `{"elicitation":{}}`, false, 1},
		{"legacy that has roots", `{"elicitation":{},"roots":{}}`, false, 1},
		{"modern that cannot be asked", `{}`, true, 1},
		{"modern that can be asked", `{"elicitation":{}}`, true, 1},
		{"modern that has roots", `{"elicitation":{},"roots":{}}`, true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			started := filepath.Join(dir, "started")
			commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), fmt.Sprintf("mcpServers: {b: {command: mcpgrow, args: [%q]}}\n", started))
			cmd, in, lines := serveOnPipes(t, dir)
			c := &pipeClient{t: t, in: in, lines: lines}
			id := 0
			request := func(method, params string) string {
				t.Helper()
				id++
				if tt.modern {
					params = strings.Trim(params+","+fmt.Sprintf(meta, tt.capabilities), ",")
				}
				return c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params))
			}
			var hello string
			if tt.modern {
				hello = request("server/discover", "")
				fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`+"\n", tt.capabilities)
				c.await("acknowledged")
			} else {
				hello = request("initialize", `"protocolVersion":"2025-11-25","capabilities":`+tt.capabilities+`,"clientInfo":{"name":"t","version":"1"}`)
				fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			if !strings.Contains(hello, "Call grow first.") {
				t.Errorf("no instructions: %s", hello)
			}
			list := request("tools/list", "")
			if !strings.Contains(list, `"b__grow"`) || strings.Contains(list, `"b__grown"`) {
				t.Errorf("listed %s", list)
			}
			if canAsk := strings.Contains(tt.capabilities, "elicitation"); strings.Contains(list, `"b__ask"`) != canAsk {
				t.Errorf("can be asked: %v, listed %s", canAsk, list)
			}
			if got := request("tools/call", `"name":"b__grow"`); !strings.Contains(got, `"content":[]`) {
				t.Errorf("b__grow: %s", got)
			}
			// Immediately: a model may call a tool that the last result has named.
			if got := request("tools/call", `"name":"b__grown"`); !strings.Contains(got, `"content":[]`) {
				t.Errorf("b__grown: %s", got)
			}
			c.await("tools/list_changed")
			if got := request("tools/call", `"name":"b__grow"`); !strings.Contains(got, `"content":[]`) {
				t.Errorf("b__grow: %s", got)
			}
			if list := request("tools/list", ""); !strings.Contains(list, `"b__grown"`) || !strings.Contains(list, `"b__grown-more"`) {
				t.Errorf("after both were added: %s", list)
			}
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			pids, err := os.ReadFile(started)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(pids), "\n"); n != tt.processes {
				t.Errorf("%d processes, want %d", n, tt.processes)
			}
		})
	}
}

// A server that asks for roots right after its handshake receives them: the client of the
// stdio gateway is asked once, and not before its own handshake.
func TestOneClientIsAskedForItsRootsAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), "mcpServers: {b: {command: mcproots}}\n")
	cmd, in, lines := serveOnPipes(t, dir)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"t","version":"1"}}}`)
	asked, greeted := 0, false
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Method == "roots/list":
			asked++
			if !greeted {
				t.Error("asked before its handshake was over")
			}
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///work"}]}}`+"\n", m.ID)
		case string(m.ID) == "1":
			greeted = true
			fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b__roots"}}`)
		case string(m.ID) == "2":
			if !strings.Contains(lines.Text(), "file:///work") || asked != 1 {
				t.Errorf("asked %d times, and the server got %s", asked, lines.Text())
			}
			in.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
