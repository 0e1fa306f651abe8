// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// console is the mcp.Caller of a command. It writes notifications to standard error, and
// asks the user the questions of a server there.
type console struct {
	*command.Env
	server string        // describes the server that asks; not the server's own text
	asking chan struct{} // capacity 1: held while a question is asked

	mu sync.Mutex // guards a line of Stderr
}

// newConsole returns a console for one call. The server is named in each question:
// "Clients MUST provide clear indication of which server is requesting
// information" (2026-07-28, client/elicitation, "Security Considerations"). Questions are
// asked one at a time; the others wait, or end with their call.
func newConsole(e *command.Env, server string) *console {
	return &console{Env: e, server: server, asking: make(chan struct{}, 1)}
}

func (c *console) Notify(_ context.Context, n *mcp.Notification) error {
	switch n.Method {
	// No other notification belongs to a tool call.
	case "notifications/progress":
		c.line(progressLine(n.Params.Bytes()))
	case "notifications/message":
		c.line(logLine(n.Params.Bytes()))
	}
	return nil
}

// line writes one line. Characters in it that could move the cursor are escaped.
func (c *console) line(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.Stderr, output.VisibleLine(text))
}

// progressLine formats notifications/progress (2026-07-28, basic/patterns/progress).
// Numbers keep their digits.
func progressLine(params []byte) string {
	var p struct {
		Progress jsontext.Value `json:"progress"`
		Total    jsontext.Value `json:"total"`
		Message  string         `json:"message"`
	}
	if err := control.Decode(params, &p); err != nil {
		return "progress that cannot be decoded"
	}
	// A missing total is left out: an invented one would be read as a promise.
	text := "[" + string(p.Progress)
	if p.Total != nil {
		text += "/" + string(p.Total)
	}
	return text + "] " + p.Message
}

// logLine formats notifications/message (2026-07-28, server/utilities/logging).
func logLine(params []byte) string {
	var p struct {
		Level  string         `json:"level"`
		Logger string         `json:"logger"`
		Data   jsontext.Value `json:"data"`
	}
	if err := control.Decode(params, &p); err != nil {
		return "a log message that cannot be decoded"
	}
	words := []string{p.Level}
	if p.Logger != "" {
		words = append(words, p.Logger+":")
	}
	// Data is any JSON. A string, which nearly all servers send, is shown without quotes.
	text := string(p.Data)
	if p.Data.Kind() == '"' {
		if err := control.Decode(p.Data, &text); err != nil {
			text = string(p.Data)
		}
	}
	return strings.Join(append(words, text), " ")
}

// Start accepts an elicitation, which is put to the user when its answer is waited for.
// The command declares no other capability.
func (c *console) Start(ctx context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	if req.Method != "elicitation/create" {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "the command line cannot answer %s", req.Method)
	}
	f, err := parseForm(req.Params.Bytes())
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "elicitation/create: %v", err)
	}
	return func() (*mcp.Result, error) { return c.ask(ctx, f) }, nil
}

func (c *console) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// ask puts a form to the user and returns the result of elicitation/create.
func (c *console) ask(ctx context.Context, f *form) (*mcp.Result, error) {
	// A question ends with its call, whether it was asked or not: its answer could not be
	// delivered.
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.asking }()
	if !c.Terminal(c.Stdin) {
		c.line("declined to answer " + c.server + ", because standard input is not a terminal: " + f.message)
		return mcp.NewResult([]byte(`{"action":"decline"}`))
	}
	c.line(c.server + " asks: " + f.message + " (end of input, Ctrl-D, declines)")
	answer, err := f.ask(ctx, c.prompt)
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(answer)
}

// prompt writes a prompt without a line break, since the answer is typed after it, and reads
// one line. The error is io.EOF at the end of standard input.
func (c *console) prompt(ctx context.Context, text string) (string, error) {
	c.mu.Lock()
	fmt.Fprint(c.Stderr, output.VisibleLine(text)+" ")
	c.mu.Unlock()
	return command.ReadLine(ctx, c.Stdin)
}
