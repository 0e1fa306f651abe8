// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// hostile is a server with texts that would affect a terminal: clear it, set its title,
// overwrite text, or change the direction of writing (FAULTS, "ANSI/zero-width/bidi in texts
// and errors").
func hostile() mcp.Handler {
	const bad = `\u001b[2J\u001b]0;owned\u0007\r\u202e\u200b\u009b31m`
	results := map[string]string{
		"server/discover":          commandtest.Discovery,
		"tools/list":               `{"tools":[{"name":"t` + bad + `","description":"d` + bad + `\nsecond line","inputSchema":{"type":"object"}}]}`,
		"prompts/list":             `{"prompts":[{"name":"p` + bad + `","title":"` + bad + `"}]}`,
		"resources/list":           `{"resources":[{"uri":"x:` + bad + `","name":"n","title":"` + bad + `"}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:{` + bad + `}","name":"n"}]}`,
		"resources/read":           `{"contents":[{"uri":"x:y","text":"one` + bad + `"}]}`,
		"tools/call":               `{"content":[{"type":"text","text":"one` + bad + `"},{"type":"` + bad + `"},{"type":"resource_link","name":"` + bad + `","uri":"x:` + bad + `"},{"type":"image","mimeType":"` + bad + `","data":"AA=="}]}`,
	}
	plain := commandtest.Responding(results)
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if req.Method != "tools/call" {
			return plain.Serve(ctx, req, caller)
		}
		if name, _ := req.Params.Text(mcp.FieldName); name == "fails" {
			return nil, &mcp.Error{Code: 7, Message: "no\x1b[2J\nsignalbox: all is well\u202e"}
		}
		for method, params := range map[string]string{
			"notifications/progress": `{"progressToken":1,"progress":1,"message":"` + bad + `"}`,
			"notifications/message":  `{"level":"info","logger":"` + bad + `","data":{"a":"` + bad + `"}}`,
		} {
			n, err := mcp.NewNotification(method, []byte(params))
			if err != nil {
				return nil, err
			}
			if err := caller.Notify(ctx, n); err != nil {
				return nil, err
			}
		}
		return plain.Serve(ctx, req, caller)
	})
}

// No text of a server moves the cursor of a terminal or looks like a line of the command.
func TestNothingOfAServerReachesTheTerminal(t *testing.T) {
	t.Parallel()
	url := commandtest.Serving(t, hostile())
	for _, args := range []string{
		"tools", "tools --json", "resources", "resources --json", "prompts", "prompts --json",
		"call x", "call x --json", "call fails", "call x --log debug", "read x:y", "read x:y --json",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			e.Terminal = func(any) bool { return true }
			words := strings.Fields(args)
			want := exitOK
			if strings.Contains(args, "fails") {
				want = exitFailed
			}
			if code := runCommand(t.Context(), e, append(words, "--url", url)...); code != want {
				t.Errorf("exit code %d, want %d: %s", code, want, e.Err)
			}
			for name, text := range map[string]string{"output": e.Out.String(), "error": e.Err.String()} {
				if hasHidden(text) {
					t.Errorf("the standard %s holds what a terminal obeys: %q", name, text)
				}
			}
			if e.Out.String() == "" && want == exitOK {
				t.Error("nothing was printed")
			}
			for line := range strings.Lines(e.Err.String()) {
				if strings.HasPrefix(line, "signalbox: all is well") {
					t.Errorf("the server speaks as the command: %q", line)
				}
			}
		})
	}
}

// A pipe receives the bytes of the server unmodified.
func TestBytesOfAServerReachAPipe(t *testing.T) {
	t.Parallel()
	url := commandtest.Serving(t, hostile())
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "read", "x:y", "--url", url); code != exitOK {
		t.Fatalf("exit code %d: %s", code, e.Err)
	}
	if got, want := e.Out.String(), "one\x1b[2J\x1b]0;owned\a\r\u202e\u200b\u009b31m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each kind of invalid result has its own error. --json still prints it unmodified.
func TestOddResults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, result string
		args                 []string
		code                 int
		out, err             string
	}{
		{"structured only", "tools/call", `{"content":[],"structuredContent":{"b": 2,  "a": 1.0}}`, []string{"call", "x"}, exitOK, `{"b": 2,  "a": 1.0}` + "\n", ""},
		{"both", "tools/call", `{"content":[{"type":"text","text":"t"}],"structuredContent":{}}`, []string{"call", "x"}, exitOK, "t\n", ""},
		{"nothing at all", "tools/call", `{"content":[]}`, []string{"call", "x"}, exitOK, "", ""},
		{"several, one with its own end of line", "tools/call", `{"content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]}`, []string{"call", "x"}, exitOK, "a\nb\n", ""},
		{"content that is no array", "tools/call", `{"content":7}`, []string{"call", "x"}, exitFailed, "", "signalbox: call x: cannot decode the result: "},
		{"content that is no array, as it is", "tools/call", `{"content":7}`, []string{"call", "x", "--json"}, exitOK, `{"content":7,"resultType":"complete"}` + "\n", ""},
		{"an error without a word", "tools/call", `{"content":[],"isError":true}`, []string{"call", "x"}, exitFailed, "", "signalbox: call x: the tool reported an error\n"},
		{"texts one after the other", "resources/read", `{"contents":[{"uri":"a:b","text":"a"},{"uri":"a:c","text":"b\n"}]}`, []string{"read", "a:b"}, exitOK, "ab\n", ""},
		{"a text among bytes", "resources/read", `{"contents":[{"uri":"a:b","text":"a"},{"uri":"a:c","blob":"AA=="}]}`, []string{"read", "a:b"}, exitFailed, "", "signalbox: read a:b: the contents are not text (of unknown type, 1 bytes); write them"},
		{"no contents", "resources/read", `{"contents":[]}`, []string{"read", "a:b"}, exitOK, "", ""},
		{"contents that are none", "resources/read", `{"contents":{}}`, []string{"read", "a:b"}, exitFailed, "", "signalbox: read a:b: cannot decode the result: "},
		{"no tools", "tools/list", `{"tools":[]}`, []string{"tools"}, exitOK, "", "no tools\n"},
		{"no tools, for a program", "tools/list", `{"tools":[]}`, []string{"tools", "--json"}, exitOK, `{"tools": []}` + "\n", ""},
		{"a tool without a name", "tools/list", `{"tools":[{}]}`, []string{"tools"}, exitOK, "\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := commandtest.Serving(t, commandtest.Responding(map[string]string{"server/discover": commandtest.Discovery, tt.method: tt.result}))
			e := commandtest.New(t, "")
			if code := runCommand(t.Context(), e, append(tt.args, "--url", url)...); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if diff := cmp.Diff(e.Out.String(), tt.out); diff != "" {
				t.Errorf("printed (-got +want):\n%s", diff)
			}
			if got := e.Err.String(); !strings.HasPrefix(got, tt.err) || tt.err == "" && got != "" {
				t.Errorf("said %q, want %q", got, tt.err)
			}
		})
	}
}

// Results and lists may be as large as the gateway accepts.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
	var tools strings.Builder
	for i := range 2000 {
		if i > 0 {
			tools.WriteByte(',')
		}
		tools.WriteString(`{"name":"tool_` + strings.Repeat("x", i%60) + `","description":"` + text[:300] + `","inputSchema":{"type":"object"}}`)
	}
	url := commandtest.Serving(t, commandtest.Responding(map[string]string{
		"server/discover": commandtest.Discovery,
		"tools/list":      `{"tools":[` + tools.String() + `]}`,
		"tools/call":      `{"content":[{"type":"text","text":"` + text + `"}]}`,
	}))
	e := commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "call", "x", "--url", url); code != exitOK || e.Out.String() != text+"\n" {
		t.Errorf("exit code %d, %d bytes: %s", code, len(e.Out.String()), e.Err)
	}
	e = commandtest.New(t, "")
	if code := runCommand(t.Context(), e, "tools", "--url", url); code != exitOK {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	lines := strings.Split(strings.TrimSpace(e.Out.String()), "\n")
	if len(lines) != 2000 {
		t.Errorf("%d lines, want 2000", len(lines))
	}
	for _, line := range lines {
		if n := len([]rune(line)); n > len("tool_")+60+2+100 {
			t.Fatalf("a line has %d characters: %q", n, line)
		}
	}
}

// hasHidden reports whether a text has characters that a terminal would interpret or not show.
func hasHidden(text string) bool {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\ufffd", "")
	return output.Visible(text) != text
}

// failingWriter is standard output on a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Each command fails if its output cannot be written: a script must not continue with a part
// of it.
func TestOutputErrors(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--help", "--version", "help call", "version", "completion bash", "check demo.yaml", "check wrong.yaml",
		"tools", "tools --json", "resources", "prompts --json", "call echo {\"text\":\"x\"}", "call echo {\"text\":\"x\"} --json",
		"read demo://about", "read demo://about --json",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			commandtest.Write(t, filepath.Join(e.Dir, "demo.yaml"), "mcpServers: {}\n")
			commandtest.Write(t, filepath.Join(e.Dir, "wrong.yaml"), "lisen: {}\n")
			e.Stdout = failingWriter{}
			if code := runCommand(t.Context(), e, strings.Fields(args)...); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			if got := e.Err.String(); !strings.Contains(got, "no space left on device") {
				t.Errorf("said %q", got)
			}
		})
	}
}

// An interrupt cancels the request, at the server too, and is reported.
func TestInterruptedCommands(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"tools", "prompts", "resources", "call x", "read a:b"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			cancelled := make(chan struct{})
			slow := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
				if req.Method == "server/discover" {
					return mcp.NewResult([]byte(commandtest.Discovery))
				}
				e.Arrived <- os.Interrupt
				<-ctx.Done()
				close(cancelled)
				return nil, ctx.Err()
			})
			url := commandtest.Serving(t, slow)
			if code := runCommand(t.Context(), e, append(strings.Fields(args), "--url", url)...); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			<-cancelled
			if got := e.Err.String(); !strings.HasPrefix(got, "signalbox: interrupted: ") {
				t.Errorf("said %q", got)
			}
			if e.Out.String() != "" {
				t.Errorf("printed %q", e.Out)
			}
		})
	}
}

func TestResourceIsSaved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, contents, file, want, err string }{
		{"text", `{"uri":"a:b","text":"t"}`, "out", "t", ""},
		{"bytes", `{"uri":"a:b","blob":"AP8="}`, "out", "\x00\xff", ""},
		{"no base64", `{"uri":"a:b","blob":"*"}`, "out", "", "illegal base64 data"},
		{"several", `{"uri":"a:b","text":"t"},{"uri":"a:c","text":"u"}`, "out", "", "the resource has 2 contents, but --output writes only one; use --json to print all"},
		{"none", "", "out", "", "the resource has 0 contents"},
		{"no folder", `{"uri":"a:b","text":"t"}`, filepath.Join("none", "out"), "", "no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := commandtest.Serving(t, commandtest.Responding(map[string]string{"server/discover": commandtest.Discovery, "resources/read": `{"contents":[` + tt.contents + `]}`}))
			e := commandtest.New(t, "")
			code := runCommand(t.Context(), e, "read", "a:b", "--url", url, "--output", tt.file)
			path := filepath.Join(e.Dir, tt.file)
			data, readErr := os.ReadFile(path)
			if tt.err != "" {
				if code != exitFailed || !strings.Contains(e.Err.String(), tt.err) || readErr == nil {
					t.Errorf("exit code %d, said %q, wrote %q", code, e.Err, data)
				}
				return
			}
			info, err := os.Stat(path)
			if code != exitOK || readErr != nil || err != nil || string(data) != tt.want {
				t.Fatalf("exit code %d, wrote %q, %v: %s", code, data, readErr, e.Err)
			}
			if got := info.Mode().Perm(); got&0o077 != 0 {
				t.Errorf("others may read it: %v", got)
			}
		})
	}
}
