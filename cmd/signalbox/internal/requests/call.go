// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// callFlags are the flags of call. The target is chosen by the same flags as for the
// lists, so that call finds what was listed.
type callFlags struct {
	target.Flags
	json bool   // print the whole result instead of its text
	id   bool   // print the id of the call
	log  string // a level of the specification, or "none"
}

// NewCall returns the command that calls a tool. It is the only command that asks the
// user questions: a server may elicit only during a call (2026-07-28, client/elicitation).
func NewCall(e *command.Env) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use:   "call NAME [JSON | KEY=VALUE ...]",
		Short: "Call a tool",
		Long: `Call a tool and print the text of its result. Progress and log messages are written
to standard error as they arrive. Questions of the tool (elicitation) are asked if
standard input is a terminal, and declined otherwise. If the tool reports an error, the
exit code is 1. An interrupt cancels the call.

JSON is one object with all arguments; - reads it from standard input. Alternatively,
each argument is a word KEY=VALUE. A VALUE that is JSON (a number, true, false, null, an
object, a list or a quoted string) is sent as JSON, unless the tool's schema requires a
string. Any other VALUE is sent as a string. KEY:=VALUE always sends VALUE as JSON.

` + target.Help,
		Example: `  signalbox call echo '{"text": "hello"}'
  signalbox call echo text=hello
  signalbox call --url http://127.0.0.1:7777/mcp countdown`,
		Args: command.ArgsBetween(1, maxWords, "NAME, and JSON or KEY=VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error { return call(cmd.Context(), e, &f, args) },
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole result as JSON, as the server sent it")
	cmd.Flags().BoolVar(&f.id, "id", false, "print the id of the call to standard error; 'signalbox why ID' shows where its time went")
	cmd.Flags().StringVar(&f.log, "log", "info", "show log messages of this `LEVEL` and above; none shows none")
	return cmd
}

// maxWords bounds the words of a call. No tool has as many arguments.
const maxWords = 1000

// call parses the command line completely before it opens the target: a mistake in the
// arguments must not start all backends first.
func call(ctx context.Context, e *command.Env, f *callFlags, args []string) error {
	level, ok := mcp.ParseLogLevel(f.log)
	if !ok && f.log != "none" {
		return command.Usagef("--log %q is not a level; use debug, info, warning, error or none", f.log)
	}
	if f.id && f.URL != "" {
		return command.Usagef("both --id and --url; a server has no ids of calls, and those of a gateway are in its log")
	}
	arguments, err := arguments(e, args[1:])
	if err != nil {
		return err
	}
	return f.With(ctx, e, func(ctx context.Context, t *target.Target) error {
		began := time.Now()
		res, err := callTool(ctx, e, t, args[0], arguments, level)
		if f.id {
			printID(ctx, e, t, args[0], began)
		}
		if err != nil {
			return fmt.Errorf("call %s: %w", args[0], suggestTool(ctx, t, args[0], withCause(t, err)))
		}
		t.Status = nil // the other backends are no concern of this call
		return showResult(e, args[0], res, f.json)
	})
}

// callTool calls a tool, and shows its notifications and requests until it returns.
func callTool(ctx context.Context, e *command.Env, t *target.Target, name string, arguments *callArguments, level mcp.LogLevel) (*mcp.Result, error) {
	if err := t.AwaitBackends(ctx); err != nil {
		return nil, err
	}
	// The arguments are inserted unmodified: numbers keep their digits, and members
	// their order. A server sends progress only for a request with a progress token
	// (2026-07-28, basic/patterns/progress). Any token will do for a single call.
	params := append([]byte(`{"name":`), jsonscan.AppendString(nil, name)...)
	params = append(append(params, `,"arguments":`...), arguments.forTool(ctx, t, name)...)
	params = append(params, `,"_meta":{"progressToken":1}}`...)
	req, err := target.NewRequest("tools/call", params)
	if err != nil {
		return nil, err
	}
	req.LogLevel = level
	return t.Serve(ctx, req, newConsole(e, t.ServerOf(name)))
}

// suggestTool adds a suggestion to the error of an unknown tool: a tool with the same
// name after a prefix, one with a similar name, or else the list of tools.
func suggestTool(ctx context.Context, t *target.Target, name string, err error) error {
	own, ok := errors.AsType[*mcp.Error](err)
	if !ok || own.Code != mcp.CodeInvalidParams || !strings.Contains(strings.ToLower(own.Message), "unknown tool") {
		return err
	}
	items, listErr := target.ToolList().Fetch(ctx, t)
	if listErr != nil {
		return err // report the error of the call instead
	}
	var tools []string
	for _, raw := range items {
		var it target.Item
		if control.Decode(raw, &it) == nil {
			tools = append(tools, it.Name)
		}
	}
	if i := slices.IndexFunc(tools, func(tool string) bool { return strings.HasSuffix(tool, "__"+name) }); i >= 0 {
		return fmt.Errorf("%w; did you mean %q?", err, tools[i])
	}
	if near := spelling.Nearest(name, tools); near != "" {
		return fmt.Errorf("%w; did you mean %q?", err, near)
	}
	return fmt.Errorf("%w; 'signalbox tools' lists the tools", err)
}

// toolResult is the part of a tool's result that is printed (2026-07-28, server/tools,
// "Tool Result").
type toolResult struct {
	Content    []content      `json:"content"`
	Structured jsontext.Value `json:"structuredContent"` // printed unmodified
	IsError    bool           `json:"isError"`           // the tool failed; the content describes how
}

// showResult prints a result. A result with isError is an error of the command, too.
func showResult(e *command.Env, name string, res *mcp.Result, asJSON bool) error {
	// With --json the result is printed even if it cannot be decoded: that is when its
	// exact text matters.
	var r toolResult
	err := control.Decode(res.Bytes(), &r)
	switch {
	case asJSON:
		err = e.PrintJSON(res.Bytes())
	case err != nil:
		return fmt.Errorf("call %s: cannot decode the result: %w; use --json to print it unmodified", name, err)
	default:
		err = printResult(e, &r)
	}
	if err == nil && r.IsError {
		return fmt.Errorf("call %s: the tool reported an error", name)
	}
	return err
}

// printResult prints the blocks of a result, each on lines of its own. Structured content
// repeats the blocks in another form (2026-07-28, server/tools, "Structured Content"), and
// is printed only if there are no blocks.
func printResult(e *command.Env, r *toolResult) error {
	if len(r.Content) == 0 && r.Structured != nil {
		return e.PrintJSON(r.Structured)
	}
	for i := range r.Content {
		text := r.Content[i].shown()
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if err := e.PrintText(e.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// callArguments are the arguments of a call from the command line.
type callArguments struct {
	object []byte // one JSON object, unmodified; nil if there are pairs
	pairs  []pair
}

// pair is one argument of the form key=value or key:=JSON.
type pair struct {
	key, text string
	isJSON    bool // text is JSON, whatever the tool's schema declares
}

// argumentsUsage is the last part of errors about arguments.
const argumentsUsage = `write them as '{"key": "value"}', or each as key=value`

// maxArguments bounds what is read from standard input.
const maxArguments = 64 << 20

// arguments reads the arguments of the command line.
func arguments(e *command.Env, args []string) (*callArguments, error) {
	switch {
	case len(args) == 0:
		return &callArguments{object: []byte("{}")}, nil
	case isPair(args[0]):
		return parsePairs(args)
	case len(args) > 1:
		return nil, command.Usagef("the arguments: %q is not of the form key=value; %s", args[0], argumentsUsage)
	}
	text := []byte(args[0])
	if args[0] == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(e.Stdin, maxArguments)); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
	}
	// ParseObject is strict: these are the user's own arguments. They are sent unmodified.
	object, err := mcp.ParseObject(text)
	switch {
	case err != nil && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) && args[0] != "-":
		return nil, command.Usagef("the arguments: %q is neither a JSON object nor of the form key=value; %s", args[0], argumentsUsage)
	case err != nil:
		return nil, command.Usagef("the arguments: %w; %s", err, argumentsUsage)
	}
	if object.IsZero() {
		return nil, command.Usagef("the arguments are empty; write {} for none")
	}
	return &callArguments{object: object.Bytes()}, nil
}

// isPair reports whether word has the form key=value. A word that begins like JSON is not one.
func isPair(word string) bool {
	return strings.Contains(word, "=") && !strings.ContainsRune(`{["`, rune(word[0]))
}

// parsePairs parses words of the form key=value.
func parsePairs(words []string) (*callArguments, error) {
	a := new(callArguments)
	for _, word := range words {
		if !isPair(word) {
			return nil, command.Usagef("the arguments: %q is not of the form key=value; %s", word, argumentsUsage)
		}
		var p pair
		p.key, p.text, _ = strings.Cut(word, "=")
		p.key, p.isJSON = strings.CutSuffix(p.key, ":")
		switch {
		case p.key == "":
			return nil, command.Usagef("the arguments: %q has no key; %s", word, argumentsUsage)
		case slices.ContainsFunc(a.pairs, func(other pair) bool { return other.key == p.key }):
			return nil, command.Usagef("the arguments: %q is given twice; remove one of them", p.key)
		case p.isJSON && !jsontext.Value(p.text).IsValid():
			return nil, command.Usagef("the arguments: the value of %q is not JSON; write %s=... for a text", p.key, p.key)
		}
		a.pairs = append(a.pairs, p)
	}
	if _, err := mcp.ParseObject(a.bytes(func(pair) bool { return false })); err != nil {
		return nil, command.Usagef("the arguments: %w; %s", err, argumentsUsage)
	}
	return a, nil
}

// bytes returns the arguments as a JSON object. isText reports whether a pair is a string
// although its value is JSON.
func (a *callArguments) bytes(isText func(pair) bool) []byte {
	if a.object != nil {
		return a.object
	}
	dst := []byte{'{'}
	for i, p := range a.pairs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonscan.AppendString(dst, p.key), ':')
		if p.isJSON || jsontext.Value(p.text).IsValid() && !isText(p) {
			dst = append(dst, p.text...)
		} else {
			dst = jsonscan.AppendString(dst, p.text)
		}
	}
	return append(dst, '}')
}

// forTool returns the arguments as an object for a tool. The schema of the tool is fetched
// only if it decides the type of an argument. If that fails, the values alone decide, and the
// call itself reports the error.
func (a *callArguments) forTool(ctx context.Context, t *target.Target, tool string) []byte {
	var properties map[string]jsontext.Value
	// A string may look like a number.
	if slices.ContainsFunc(a.pairs, func(p pair) bool {
		v := jsontext.Value(p.text)
		return !p.isJSON && v.IsValid() && v.Kind() != '"'
	}) {
		properties = propertiesOf(ctx, t, tool)
	}
	return a.bytes(func(p pair) bool {
		return jsontext.Value(p.text).Kind() != '"' && wantsString(properties[p.key], p.text)
	})
}

// propertiesOf returns the schemas of a tool's arguments, or nil.
func propertiesOf(ctx context.Context, t *target.Target, name string) map[string]jsontext.Value {
	items, err := target.ToolList().Fetch(ctx, t)
	if err != nil {
		return nil
	}
	for _, raw := range items {
		var tool struct {
			Name        string `json:"name"`
			InputSchema struct {
				Properties map[string]jsontext.Value `json:"properties"`
			} `json:"inputSchema"`
		}
		if control.Decode(raw, &tool) == nil && tool.Name == name {
			return tool.InputSchema.Properties
		}
	}
	return nil
}

// wantsString reports whether a schema accepts value only as a string.
func wantsString(schema jsontext.Value, value string) bool {
	var one struct {
		Type string `json:"type"`
	}
	var several struct {
		Type []string `json:"type"`
	}
	if len(schema) == 0 {
		return false
	}
	if control.Decode(schema, &one) == nil {
		return one.Type == "string"
	}
	if control.Decode(schema, &several) != nil || !slices.Contains(several.Type, "string") {
		return false
	}
	return !slices.ContainsFunc(several.Type, func(name string) bool {
		return name != "string" && (name != "null" || value == "null")
	})
}
