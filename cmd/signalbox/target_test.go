// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The target of a command is determined by its flags, before anything is started or dialed.
func TestInvalidTarget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags targetFlags
		want  string
		usage bool
	}{
		{"two targets", targetFlags{url: "http://a.example/", config: "x.yaml"}, "both --url and --config; choose one", true},
		{"a header for no server", targetFlags{headers: []string{"A: b"}}, "--header needs --url", true},
		{"no URL", targetFlags{url: "a.example/mcp"}, "is not an http or https URL", true},
		{"no host", targetFlags{url: "http:///mcp"}, "is not an http or https URL", true},
		{"another scheme", targetFlags{url: "ws://a.example/mcp"}, "is not an http or https URL", true},
		{"a local file", targetFlags{url: "file:///etc/passwd"}, "is not an http or https URL", true},
		{"credentials", targetFlags{url: "https://me:pass@a.example/"}, "--url holds credentials", true},
		{"a name of credentials", targetFlags{url: "https://pass@a.example/"}, "--url holds credentials", true},
		{"no file", targetFlags{config: "none.yaml"}, "none.yaml: no such file", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, "")
			got, err := tt.flags.open(t.Context(), e.env)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "pass@") {
				t.Fatalf("got %v, %v; want %q", got, err, tt.want)
			}
			if _, ok := errors.AsType[usageError](err); ok != tt.usage {
				t.Errorf("a mistake in the command line: %v, want %v", ok, tt.usage)
			}
		})
	}
}

// The token is in the environment, because all users of a machine can see the arguments of a
// process.
func TestTargetHeaders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		headers []string
		token   string // "-" means not set
		want    http.Header
		err     string
	}{
		{"none", nil, "-", http.Header{}, ""},
		{"a token", nil, "t", http.Header{"Authorization": {"Bearer t"}}, ""},
		{"an empty token", nil, "", nil, "SIGNALBOX_TOKEN is set and empty"},
		{"headers", []string{"x-a:  b ", "X-A: c", "X-Empty:"}, "-", http.Header{"X-A": {"b", "c"}, "X-Empty": {""}}, ""},
		{"a colon in the value", []string{"X-Time: 12:30"}, "-", http.Header{"X-Time": {"12:30"}}, ""},
		{"no colon", []string{"nothing"}, "-", nil, `--header "nothing" is not of the form 'Name: value'`},
		{"no name", []string{": b"}, "-", nil, "is not of the form"},
		{"a token for all to see", []string{"authorization: Bearer t"}, "-", nil, "put the token into SIGNALBOX_TOKEN instead"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, "")
			e.LookupEnv = func(name string) (string, bool) { return tt.token, name == tokenVariable && tt.token != "-" }
			got, err := e.header(tt.headers)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "Bearer") {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("headers (-got +want):\n%s", diff)
			}
		})
	}
}

// Requests of a command have the latest revision and the client info, as
// the specification requires (2026-07-28, basic, "Metadata").
func TestRequestsNameTheClient(t *testing.T) {
	t.Parallel()
	var got []*mcp.Peer
	url := serving(t, mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		if req.Method == "tools/list" {
			got = append(got, req.Client)
			return mcp.NewResult([]byte(`{"tools":[]}`))
		}
		return mcp.NewResult([]byte(discovery))
	}))
	e := newTestEnv(t, "")
	if code := e.run(t.Context(), "tools", "--url", url); code != exitOK {
		t.Fatalf("exit code %d: %s", code, e.err)
	}
	if len(got) != 1 {
		t.Fatalf("%d requests, want 1", len(got))
	}
	if got[0].Version != mcp.LatestModern || !strings.Contains(string(got[0].Info), `"name":"signalbox"`) || !strings.Contains(string(got[0].Capabilities), "elicitation") {
		t.Errorf("asked as %s %s %s", got[0].Version, got[0].Info, got[0].Capabilities)
	}
}

// A backend that is not available causes a warning and the absence of its items, but no other
// exit code.
func TestWarnings(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	write(t, filepath.Join(e.Dir, "signalbox.yaml"), `
mcpServers:
  dead: {command: no-such-program}
  away: {command: no-such-program, disabled: true}
limits: {firstList: 5s}
`)
	if code := e.run(t.Context(), "tools"); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	want := "no tools\nsignalbox: warning: backend \"dead\" is down: its program \"no-such-program\" was not found in PATH\n"
	if got := e.err.String(); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	e = newTestEnv(t, "")
	if code := e.run(t.Context(), "tools", "--verbose"); code != exitOK || !strings.HasPrefix(e.out.String(), "echo ") {
		t.Errorf("exit code %d, printed %q", code, e.out)
	}
}
