// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
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
			e := commandtest.New(t, "")
			n, err := mcp.NewNotification(tt.method, []byte(tt.params))
			if err != nil {
				t.Fatal(err)
			}
			if err := newConsole(e.Env, "the server of a__x").Notify(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if got := e.Err.String(); got != tt.want {
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
			e := commandtest.New(t, tt.stdin)
			e.Terminal = func(any) bool { return tt.terminal }
			req, err := mcp.NewRequest(tt.method, []byte(tt.params))
			if err != nil {
				t.Fatal(err)
			}
			res, err := mcp.Ask(t.Context(), newConsole(e.Env, "the server of a__x"), req)
			if tt.code != 0 {
				if !errors.Is(err, &mcp.Error{Code: tt.code}) {
					t.Errorf("got %v, want code %d", err, tt.code)
				}
				return
			}
			if err != nil || string(res.Bytes()) != tt.want {
				t.Errorf("got %v, %v; want %s", res, err, tt.want)
			}
			if got := e.Err.String(); !strings.HasPrefix(got, tt.said) {
				t.Errorf("said %q, want %q", got, tt.said)
			}
		})
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
				if got, err := command.ReadLine(t.Context(), r); got != want || err != nil {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			}
			if _, err := command.ReadLine(t.Context(), r); !errors.Is(err, tt.err) {
				t.Errorf("ended with %v, want %v", err, tt.err)
			}
		})
	}
}

// A question without an answer ends with its call. A second question waits for its turn, but
// not for the end of the first one's call.
func TestQuestionEndsWithItsCall(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	c := newConsole(e.Env, "the server of x")
	c.asking <- struct{}{} // another question is being asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := mcp.NewRequest("elicitation/create", []byte(`{"message":"m","requestedSchema":{"properties":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mcp.Ask(ctx, c, req); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the call", err)
	}
	<-c.asking
	if res, err := mcp.Ask(t.Context(), c, req); err != nil || string(res.Bytes()) != `{"action":"decline"}` {
		t.Errorf("got %v, %v", res, err)
	}
}
