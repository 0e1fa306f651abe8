// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// child is the command mcpchild: a legacy MCP server on standard input and output. Its
// arguments are the name of its tool, a named pipe that it holds open, and "stubborn" to make
// it ignore the end of its input, as some servers do.
func child() {
	name := "hello"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	// Ends a child that a failed test has left behind.
	time.AfterFunc(time.Minute, func() { os.Exit(3) })
	if len(os.Args) > 2 {
		held, err := os.OpenFile(os.Args[2], os.O_WRONLY, 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		defer runtime.KeepAlive(held)
	}
	fmt.Fprintln(os.Stderr, "child is up")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer(name, in.Bytes())
	}
	if len(os.Args) > 3 && os.Args[3] == "stubborn" {
		select {} // until it is killed
	}
	vanish()
}

// muteChild is the command mcpmute: a program that is no MCP server. It writes a greeting, and
// never responds.
func muteChild() {
	fmt.Println("Welcome to my server")
	_, _ = io.Copy(io.Discard, os.Stdin)
	vanish()
}

// vanish ends the process immediately. With the race detector os.Exit takes a second, and
// gateways do not pass GORACE to their children.
func vanish() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	fmt.Fprintln(os.Stderr, err)
}

// answer responds to a message.
func answer(tool string, line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
		return
	}
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"child","version":"1"},"instructions":"say hello"}`,
		"ping":       `{}`,
		"tools/list": fmt.Sprintf(`{"tools":[{"name":%q,"description":"Says hello.","inputSchema":{"type":"object"}}]}`, tool),
		"tools/call": `{"content":[{"type":"text","text":"hello \u001b[31mred"},{"type":"image","mimeType":"image/png","data":"AAECAw=="}],"isError":true}`,
		"resources/list": fmt.Sprintf(`{"resources":[{"uri":"test://%s/bytes","name":"bytes"},{"uri":"test://%s/both","name":"both"}]}`,
			tool, tool),
		"resources/templates/list": `{"resourceTemplates":[]}`,
		"resources/read":           `{"contents":[{"uri":"test://hello/bytes","mimeType":"image/png","blob":"AAECAw=="}]}`,
	}
	if tool == "large" && answerLarge(line, results) {
		return
	}
	if r, ok := results[m.Method]; ok {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, r)
		return
	}
	fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
}

// answerLarge serves the tool large, which returns 4 MiB, and a small tool. The id is the
// last member of its responses, as with many servers. It reports whether it has responded.
func answerLarge(line []byte, results map[string]string) bool {
	results["tools/list"] = `{"tools":[{"name":"large","inputSchema":{"type":"object"}},{"name":"small","inputSchema":{"type":"object"}}]}`
	results["tools/call"] = `{"content":[]}`
	var m struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil || m.Params.Name != "large" {
		return false
	}
	text := strings.Repeat("x", 4<<20)
	fmt.Printf(`{"result":{"content":[{"type":"text","text":"%s"}]},"jsonrpc":"2.0","id":%s}`+"\n", text, m.ID)
	return true
}

// growingChild is the command mcpgrow: a legacy MCP server on standard input and output. Its
// tool "grow" adds the tool "grown", then "grown-more", and returns its process, and it has the tool "ask" for clients
// that support elicitation. A call of "ask" with a progress token is reported as begun, and
// never ends. It appends a line to the file that is its argument. With "stubborn" as another
// argument it ends only if it is killed, and starts a program, and appends its process to a
// second file.
func growingChild() {
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) // if a failed test left it behind
	f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if len(os.Args) > 2 && os.Args[2] == "stubborn" {
		defer func() { select {} }()
		beStubborn(os.Args[1] + startedSuffix)
	}
	tools, grown := []string{"grow"}, "grown"
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name         string                     `json:"name"`
				Capabilities map[string]json.RawMessage `json:"capabilities"`
				Meta         map[string]json.RawMessage `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{"content":[]}`
		switch m.Method {
		case "initialize":
			if m.Params.Capabilities["elicitation"] != nil {
				tools = append(tools, "ask")
			}
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"growing","version":"1"},"instructions":"Call grow first."}`
		case "tools/list":
			items := make([]string, len(tools))
			for i, name := range tools {
				items[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
			}
			result = `{"tools":[` + strings.Join(items, ",") + `]}`
		case "tools/call":
			if m.Params.Name == "grow" {
				tools = append(tools, grown)
				grown += "-more"
				fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				result = fmt.Sprintf(`{"content":[],"structuredContent":{"process":%d}}`, os.Getpid())
			}
			if m.Params.Name == "ask" && m.Params.Meta["progressToken"] != nil {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":%s}}`+"\n", m.Params.Meta["progressToken"])
				continue
			}
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// startedSuffix is that of the file about the programs that stubborn servers start.
const startedSuffix = ".started"

// beStubborn ignores SIGTERM, and starts a program that ignores it as well. It appends both
// processes to a file.
func beStubborn(file string) {
	signal.Ignore(syscall.SIGTERM)
	started := exec.Command("sleep", "60")
	err := started.Start()
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid(), started.Process.Pid)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// rootsChild is the command mcproots: a legacy MCP server that asks for roots after its
// handshake, while it has a request. Its tool "roots" returns the response.
func rootsChild() {
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) // if a failed test left it behind
	var answer string
	var waiting []json.RawMessage // ids of calls received before the response
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		result := ""
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"roots","version":"1"}}`
		case "tools/list": // the first request after the handshake
			fmt.Println(`{"jsonrpc":"2.0","id":"ask","method":"roots/list"}`)
			result = `{"tools":[{"name":"roots","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			waiting = append(waiting, m.ID)
		case "":
			answer = string(m.Result) + string(m.Error)
		default:
			if m.ID != nil {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
			}
		}
		if result != "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
		if answer == "" {
			continue
		}
		for _, id := range waiting {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", id, answer)
		}
		waiting = nil
	}
}

// listingChild is the command mcplist: a legacy MCP server on standard input and output, with
// the tools that its file names, one a line. A call announces that they have changed.
func listingChild() {
	time.AfterFunc(time.Minute, func() { os.Exit(3) }) // if a failed test left it behind
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := `{"content":[]}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"listing","version":"1"}}`
		case "tools/list":
			names, err := os.ReadFile(os.Args[1])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			var items []string
			for name := range strings.FieldsSeq(string(names)) {
				items = append(items, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
			}
			result = `{"tools":[` + strings.Join(items, ",") + `]}`
		case "tools/call":
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`+"\n", m.ID, m.Method)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}
