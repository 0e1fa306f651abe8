// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// console is the Caller of a command: the person before it. What a tool says is
// written to standard error, what it asks is asked there.
type console struct {
	*env
	server string        // who asks, in words that are not the server's own
	asking chan struct{} // capacity 1: held by the question that is being asked

	mu sync.Mutex // one line at a time
}

// newConsole returns a console for one call to a server, of which it is said who it is
// when that asks: "Clients MUST provide clear indication of which server is requesting
// information" (2026-07-28, client/elicitation, "Security Considerations"). It asks one question at a time, as
// there is one person; the others wait, or end with their call.
func newConsole(e *env, server string) *console {
	return &console{env: e, server: server, asking: make(chan struct{}, 1)}
}

// Notify shows progress and log messages.
func (c *console) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	// Others are for programs, and none of them belongs to a call of a tool.
	case "notifications/progress":
		c.line(progressLine(n.Params.Bytes()))
	case "notifications/message":
		c.line(logLine(n.Params.Bytes()))
	}
	return nil
}

// line writes one line, in which nothing of a server's can move the cursor.
func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.Stderr, visibleLine(text))
}

// progressLine renders notifications/progress (2026-07-28,
// basic/patterns/progress). Numbers stay as they were written.
func progressLine(params []byte) string {
	var p struct {
		Progress jsontext.Value `json:"progress"`
		Total    jsontext.Value `json:"total"`
		Message  string         `json:"message"`
	}
	if err := decode(params, &p); err != nil {
		return "progress that cannot be read"
	}
	// Members that are not there are left out: a total that was invented would be
	// read as a promise.
	text := "[" + string(p.Progress)
	if p.Total != nil {
		text += "/" + string(p.Total)
	}
	return text + "] " + p.Message
}

// logLine renders notifications/message (2026-07-28, server/utilities/logging).
func logLine(params []byte) string {
	var p struct {
		Level  string         `json:"level"`
		Logger string         `json:"logger"`
		Data   jsontext.Value `json:"data"`
	}
	if err := decode(params, &p); err != nil {
		return "a log message that cannot be read"
	}
	words := []string{p.Level}
	if p.Logger != "" {
		words = append(words, p.Logger+":")
	}
	// Data is any JSON; a string is shown without its quotes, as that is what nearly
	// all servers send.
	text := string(p.Data)
	if p.Data.Kind() == '"' {
		if err := decode(p.Data, &text); err != nil {
			text = string(p.Data)
		}
	}
	return strings.Join(append(words, text), " ")
}

// Ask puts an elicitation to the person. Nothing else can be asked here, and
// the command has declared nothing else.
func (c *console) Ask(ctx context.Context, req *mcp.Request) (*mcp.Result, error) {
	if req.Method != "elicitation/create" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the command line cannot answer %s", req.Method)
	}
	f, err := parseForm(req.Params.Bytes())
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "elicitation/create: %v", err)
	}
	// A call that ends takes its questions with it, asked or not: an answer would
	// have nobody to go to.
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.asking }()
	answer, err := c.fill(ctx, f)
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(answer)
}

// fill has a form filled in, and returns the result of elicitation/create.
func (c *console) fill(ctx context.Context, f *form) ([]byte, error) {
	if !c.Terminal(c.Stdin) {
		c.line("declined to answer " + c.server + ", because standard input is no terminal: " + f.message)
		return []byte(`{"action":"decline"}`), nil
	}
	c.line(c.server + " asks: " + f.message + " (end of input, Ctrl-D, declines)")
	return f.ask(ctx, c.prompt)
}

// prompt writes a prompt and reads one line. The error is io.EOF at the end of
// standard input.
func (c *console) prompt(ctx context.Context, text string) (string, error) {
	c.show(text)
	return readLine(ctx, c.Stdin)
}

// show writes a prompt, which stays on its line: the answer is typed behind it.
func (c *console) show(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(c.Stderr, visibleLine(text)+" ")
}

// readLine reads up to a line break, one byte at a time so that nothing behind
// it is lost. A read that ctx interrupts goes on in the background until there
// is a line, as a terminal cannot be told to stop waiting.
func readLine(ctx context.Context, r interface{ Read([]byte) (int, error) }) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	// Ends with the line, the input or the process; nobody waits after ctx.
	go func() {
		var b strings.Builder
		// One byte at a time: a larger read would take what the next question, or
		// the program behind this one in a script, is to have.
		buf := make([]byte, 1)
		for {
			n, err := r.Read(buf)
			if n == 1 && buf[0] == '\n' {
				read <- answer{line: b.String()}
				return
			}
			b.Write(buf[:n])
			if err != nil {
				read <- answer{b.String(), err}
				return
			}
		}
	}()
	select {
	case a := <-read:
		return strings.TrimSuffix(a.line, "\r"), a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
