// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// callFlags are what a command line says about a call. The target is chosen as
// for the lists, so that what was listed is what is called.
type callFlags struct {
	targetFlags
	json bool   // the whole result, and not its text
	log  string // a level of the specification, or none
}

// newCall makes the command that calls a tool. It is the one command that asks
// the person something, since a call is the one request during which a server may
// (2026-07-28, client/elicitation).
func newCall(e *env) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call NAME [JSON | KEY=VALUE ...]",
		Short: "Call a tool",
		Long: `Call a tool, and print the text of its result. Progress and log messages are
written to standard error as they come, and what the tool asks is asked here where
standard input is a terminal. A result that the tool calls an error ends with
exit code 1. An interrupt cancels the call.

JSON are the arguments as one object; - reads them from standard input. Or each
argument is a word KEY=VALUE. A VALUE that is JSON (a number, true, false, null, an
object, a list or a quoted string) is sent as it is, unless the tool's schema has a
string there. Any other VALUE is a string. KEY:=VALUE takes JSON only, whatever the
schema has.`,
		Example: `  signalbox call echo '{"text": "hello"}'
  signalbox call echo text=hello
  signalbox call --url http://127.0.0.1:7777/mcp countdown`,
		Args: argsBetween(1, maxWords, "NAME, and JSON or KEY=VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.call(cmd.Context(), &f, args) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole result as JSON, as the server gave it")
	cmd.Flags().StringVar(&f.log, "log", "info", "show log messages from this `LEVEL` on, or none")
	return cmd
}

// maxWords bounds the words of a call. It is more than a tool has arguments.
const maxWords = 1000

// call reads everything that the command line says before anything is started:
// a mistake in the arguments must not cost the start of all backends, nor be
// told after their log.
func (e *env) call(ctx context.Context, f *callFlags, args []string) error {
	level, ok := mcp.ParseLogLevel(f.log)
	if !ok && f.log != "none" {
		return usagef("--log %q is no level, such as debug, info, warning, error, or none", f.log)
	}
	// Neither of the two is cobra's to know, and both are told before anything is
	// started.
	arguments, err := e.arguments(args[1:])
	if err != nil {
		return err
	}
	return f.with(ctx, e, func(ctx context.Context, t *target) error {
		res, err := e.callTool(ctx, t, args[0], arguments, level)
		if err != nil {
			return fmt.Errorf("call %s: %w", args[0], suggestTool(ctx, t, args[0], err))
		}
		return e.showResult(args[0], res, f.json)
	})
}

// callTool calls a tool and follows what it says until it ends.
func (e *env) callTool(ctx context.Context, t *target, name string, arguments *callArguments, level mcp.LogLevel) (*mcp.Result, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	// The arguments are spliced in as they were typed: numbers keep their digits,
	// and members their order. A progress token is what asks for progress at all
	// (2026-07-28, basic/patterns/progress); any will do, as there is one call.
	params := append([]byte(`{"name":`), mcp.AppendString(nil, name)...)
	params = append(append(params, `,"arguments":`...), arguments.fit(ctx, t, name)...)
	params = append(params, `,"_meta":{"progressToken":1}}`...)
	req, err := request("tools/call", params)
	if err != nil {
		return nil, err
	}
	req.LogLevel = level
	return t.Serve(ctx, req, newConsole(e, t.whose(name)))
}

// suggestTool adds to the error of a tool that is not known the one that was most likely
// meant: the same name behind a prefix, or one that is spelt nearly so.
func suggestTool(ctx context.Context, t *target, name string, err error) error {
	own, ok := errors.AsType[*mcp.Error](err)
	if !ok || own.Code != mcp.CodeInvalidParams || !strings.Contains(strings.ToLower(own.Message), "unknown tool") {
		return err
	}
	items, listErr := toolList().fetch(ctx, t)
	if listErr != nil {
		return err // the first error is the one to tell
	}
	var tools []string
	for _, raw := range items {
		var it item
		if decode(raw, &it) == nil {
			tools = append(tools, it.Name)
		}
	}
	if i := slices.IndexFunc(tools, func(tool string) bool { return strings.HasSuffix(tool, "__"+name) }); i >= 0 {
		return fmt.Errorf("%w; did you mean %q?", err, tools[i])
	}
	if near := config.Nearest(name, tools); near != "" {
		return fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return err
}

// whose says which server a tool is of. That of a gateway is told by the tool's name,
// which begins with what the configuration calls the server.
func (t *target) whose(tool string) string {
	if t.host == "" {
		return "the server of " + tool
	}
	return "the server at " + t.host
}

// ready waits until a gateway that was just made has heard of its backends. It
// knows of no tool before that, since it never asks a backend for a list on the
// way of a call.
func (t *target) ready(ctx context.Context) error {
	if !t.isNew {
		return nil
	}
	// A gateway holds back its first list until it has heard of all, or for as
	// long as it was told to wait; a list of anything else would do as well.
	_, _, err := toolList().page(ctx, t, nil)
	return err
}

// toolResult is what is shown of a result (2026-07-28, server/tools, "Tool
// Result").
type toolResult struct {
	Content    []content      `json:"content"`
	Structured jsontext.Value `json:"structuredContent"` // printed as it was written
	IsError    bool           `json:"isError"`           // the tool's own failure, with its words in the content
}

// showResult prints a result. One that is an error is also the command's.
func (e *env) showResult(name string, res *mcp.Result, asJSON bool) error {
	// With --json the result is passed on even where it cannot be read: that is
	// when somebody wants to see it as it is.
	var r toolResult
	err := decode(res.Bytes(), &r)
	switch {
	case asJSON:
		err = e.printJSON(res.Bytes())
	case err != nil:
		return fmt.Errorf("call %s: the result cannot be read: %w; --json prints it as it is", name, err)
	default:
		err = e.printResult(&r)
	}
	if err == nil && r.IsError {
		return fmt.Errorf("call %s: the tool reported an error", name)
	}
	return err
}

// printResult prints the blocks of a result, each on lines of its own. Structured
// content repeats what the blocks say for programs (2026-07-28, server/tools,
// "Structured Content"), and is printed only where there are none.
func (e *env) printResult(r *toolResult) error {
	if len(r.Content) == 0 && r.Structured != nil {
		return e.printJSON(r.Structured)
	}
	for i := range r.Content {
		text := r.Content[i].shown()
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if err := e.printText(e.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}
