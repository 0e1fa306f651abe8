// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
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
