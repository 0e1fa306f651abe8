// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestConsoleShowsNotifications(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, method, params, want string }{
		{"progress", "notifications/progress", `{"progressToken":1,"progress":1.50,"total":3,"message":"half"}`, "[1.50/3] half\n"},
		{"no total", "notifications/progress", `{"progressToken":1,"progress":7}`, "[7]\n"},
		{"odd progress", "notifications/progress", `{"message":7}`, "progress that cannot be decoded\n"},
		{"log", "notifications/message", `{"level":"warning","logger":"db","data":"slow"}`, "warning db: slow\n"},
		{"no logger", "notifications/message", `{"level":"info","data":{"a": 1.0}}`, "info {\"a\": 1.0}\n"},
		{"odd log", "notifications/message", `{"level":7}`, "a log message that cannot be decoded\n"},
		{"escapes and lines", "notifications/message", `{"level":"info","data":"\u001b[2J\nsignalbox: all is well"}`, `info \x1b[2J signalbox: all is well` + "\n"},
		{"something else", "notifications/resources/updated", `{"uri":"x:y"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, "")
			n, err := mcp.NewNotification(tt.method, []byte(tt.params))
			if err != nil {
				t.Fatal(err)
			}
			if err := newConsole(e.env, "the server of a__x").Notify(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if got := e.err.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Each question names the server in the command's own words.
//
// X6+ 2026-07-28 client/elicitation: "Clients **MUST** provide clear indication of which
// server is requesting information"
func TestConsoleAnswers(t *testing.T) {
	t.Parallel()
	const form = `{"message":"Who?\u001b","requestedSchema":{"properties":{"name":{"type":"string"}}}}`
	for _, tt := range []struct {
		name           string
		terminal       bool
		stdin          string
		method, params string
		want           string
		code           int64
		said           string
	}{
		{name: "on a terminal", terminal: true, stdin: "Ada\r\nrest", method: "elicitation/create", params: form,
			want: `{"action":"accept","content":{"name":"Ada"}}`, said: `the server of a__x asks: Who?\x1b (end of input, Ctrl-D, declines)` + "\nname (optional): "},
		{name: "end of input", terminal: true, method: "elicitation/create", params: form,
			want: `{"action":"decline"}`, said: `the server of a__x asks: `},
		{name: "no terminal", stdin: "Ada\n", method: "elicitation/create", params: form,
			want: `{"action":"decline"}`, said: `declined to answer the server of a__x, because standard input is not a terminal: Who?\x1b` + "\n"},
		{name: "address", terminal: true, method: "elicitation/create", params: `{"mode":"url"}`, code: mcp.CodeInvalidParams},
		{name: "sampling", terminal: true, method: "sampling/createMessage", params: `{}`, code: mcp.CodeMethodNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, tt.stdin)
			e.Terminal = func(any) bool { return tt.terminal }
			req, err := mcp.NewRequest(tt.method, []byte(tt.params))
			if err != nil {
				t.Fatal(err)
			}
			res, err := mcp.Ask(t.Context(), newConsole(e.env, "the server of a__x"), req)
			if tt.code != 0 {
				if !errors.Is(err, &mcp.Error{Code: tt.code}) {
					t.Errorf("got %v, want code %d", err, tt.code)
				}
				return
			}
			if err != nil || string(res.Bytes()) != tt.want {
				t.Errorf("got %v, %v; want %s", res, err, tt.want)
			}
			if got := e.err.String(); !strings.HasPrefix(got, tt.said) {
				t.Errorf("said %q, want %q", got, tt.said)
			}
		})
	}
}

// A server that is called directly is named by its address.
//
// X6+ 2026-07-28 client/elicitation: "Clients **MUST** provide clear indication of which
// server is requesting information"
func TestServerOf(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	f := targetFlags{url: "http://tools.example:7777/mcp"}
	there, err := f.open(t.Context(), e.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.close() })
	for _, tt := range []struct {
		at   *target
		want string
	}{
		{&target{isNew: true}, "the server of a__x"},
		{there, "the server at tools.example:7777"},
	} {
		if got := tt.at.serverOf("a__x"); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestReadLineLeavesTheRest(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name, in string
		lines    []string
		err      error
	}{
		{"lines", "one\r\ntwo\n\n", []string{"one", "two", ""}, io.EOF},
		{"no last line break", "one", nil, io.EOF},
		{"error", "one\n", []string{"one"}, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := io.MultiReader(strings.NewReader(tt.in), iotest.ErrReader(tt.err))
			for _, want := range tt.lines {
				if got, err := readLine(t.Context(), r); got != want || err != nil {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
			if _, err := readLine(t.Context(), r); !errors.Is(err, tt.err) {
				t.Errorf("ended with %v, want %v", err, tt.err)
			}
		})
	}
}
