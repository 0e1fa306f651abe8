// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Invalid arguments are reported with their place before anything is started. Valid ones are
// sent as typed.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want, err   string
	}{
		{name: "none", want: "{}"},
		{name: "numbers keep their digits", args: []string{`{"n": 1.0, "big": 12345678901234567890, "e": 1E2}`}, want: `{"n": 1.0, "big": 12345678901234567890, "e": 1E2}`},
		{name: "order and escapes stay", args: []string{`{"b": "\u00e9\/", "a": null}`}, want: `{"b": "\u00e9\/", "a": null}`},
		{name: "from standard input", stdin: "{\"a\": 1}\n", args: []string{"-"}, want: `{"a": 1}`},
		{name: "no JSON", args: []string{"text"}, err: `"text" is neither a JSON object nor of the form key=value; write them as '{"key": "value"}', or each as key=value`},
		{name: "a text", args: []string{"text=hello"}, want: `{"text":"hello"}`},
		{name: "texts", args: []string{"b=x y", `a="x"`, "c=", "d=e=f", "g={", "h= "}, want: `{"b":"x y","a":"x","c":"","d":"e=f","g":"{","h":" "}`},
		{name: "values that are JSON", args: []string{"n=1.0", "t=true", "z=null", `o={"a": [1]}`, "zip=01234", `i=1,"x":2`}, want: `{"n":1.0,"t":true,"z":null,"o":{"a": [1]},"zip":"01234","i":"1,\"x\":2"}`},
		{name: "JSON by its sign", args: []string{`o:={"a": 1}`, "n:=1"}, want: `{"o":{"a": 1},"n":1}`},
		{name: "a sign and no JSON", args: []string{"o:=hello"}, err: `the value of "o" is not JSON; write o=... for a text`},
		{name: "no key", args: []string{"=x"}, err: `"=x" has no key`},
		{name: "no key before a sign", args: []string{":=1"}, err: `":=1" has no key`},
		{name: "a key twice", args: []string{"a=1", "a:=2"}, err: `"a" is given twice; remove one of them`},
		{name: "a pair and a word", args: []string{"a=1", "b"}, err: `"b" is not of the form key=value; write them as`},
		{name: "an object and a pair", args: []string{`{"a": 1}`, "b=2"}, err: "is not of the form key=value; write them as"},
		{name: "a pair and an object", args: []string{"b=2", `{"a": "="}`}, err: "is not of the form key=value; write them as"},
		{name: "quotes that the shell took", args: []string{`{text: hello}`}, err: "at byte 1"},
		{name: "a comma too many", args: []string{`{"a": 1,}`}, err: "unexpected '}' at byte 8"},
		{name: "half of it", args: []string{`{"a": "b`}, err: "at byte 8"},
		{name: "two of them", args: []string{`{} {}`}, err: "at byte 3"},
		{name: "a list", args: []string{`[1]`}, err: "write them as"},
		{name: "a string", args: []string{`"a"`}, err: "write them as"},
		{name: "twice the same", args: []string{`{"a": 1, "a": 2}`}, err: `"a"`},
		{name: "no UTF-8", args: []string{"{\"a\": \"\xff\"}"}, err: "at byte 7"},
		{name: "empty", args: []string{""}, err: "the arguments are empty; write {} for none"},
		{name: "empty standard input", args: []string{"-"}, err: "the arguments are empty; write {} for none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := arguments(commandtest.New(t, tt.stdin).Env, tt.args)
			if tt.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got := string(got.bytes(func(pair) bool { return false })); got != tt.want {
					t.Errorf("got %s; want %s", got, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q in it", err, tt.err)
			}
			if _, ok := errors.AsType[command.UsageError](err); !ok {
				t.Errorf("%v is no mistake in the command line", err)
			}
		})
	}
}

func TestArgumentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	broken := errors.New("the pipe broke")
	e.Stdin = iotest.ErrReader(broken)
	if _, err := arguments(e.Env, []string{"-"}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// A schema with type string makes a string of a value that looks like another type.
func TestArgumentsFitTheSchema(t *testing.T) {
	t.Parallel()
	const tools = `{"tools":[{"name":"other","inputSchema":{"type":"object","properties":{"s":{"type":"integer"}}}},
		{"name":"x","inputSchema":{"type":"object","properties":{
			"s":{"type":"string"},"o":{"type":["string","null"]},"n":{"type":"number"},"e":{"type":["string","number"]},"a":true}}}]}`
	for name, tt := range map[string]struct {
		tool  string
		args  []string
		want  string
		asked int // requests for the list
	}{
		"a string":             {"x", []string{"s=42"}, `{"s":"42"}`, 1},
		"a quoted string":      {"x", []string{`s="42"`}, `{"s":"42"}`, 0},
		"JSON by its sign":     {"x", []string{"s:=42"}, `{"s":42}`, 0},
		"a string or null":     {"x", []string{"o=42"}, `{"o":"42"}`, 1},
		"null":                 {"x", []string{"o=null"}, `{"o":null}`, 1},
		"a number":             {"x", []string{"n=42"}, `{"n":42}`, 1},
		"a string or a number": {"x", []string{"e=42"}, `{"e":42}`, 1},
		"anything":             {"x", []string{"a=42"}, `{"a":42}`, 1},
		"no such argument":     {"x", []string{"z=42"}, `{"z":42}`, 1},
		"no such tool":         {"y", []string{"s=42"}, `{"s":42}`, 1},
		"no need to know":      {"x", []string{"s=hello"}, `{"s":"hello"}`, 0},
		"an object":            {"x", []string{`{"s": 42}`}, `{"s": 42}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			h := mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
				asked++
				return mcp.NewResult([]byte(tools))
			})
			a, err := arguments(commandtest.New(t, "").Env, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(a.forTool(t.Context(), &target.Target{Handler: h}, tt.tool)); got != tt.want || asked != tt.asked {
				t.Errorf("got %s after %d lists, want %s after %d", got, asked, tt.want, tt.asked)
			}
		})
	}
}
