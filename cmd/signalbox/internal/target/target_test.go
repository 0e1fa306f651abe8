// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// The target of a command is determined by its flags, before anything is started or dialed.
func TestInvalidTarget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags Flags
		want  string
		usage bool
	}{
		{"two targets", Flags{URL: "http://a.example/", Config: "x.yaml"}, "both --url and --config; choose one", true},
		{"a header for no server", Flags{headers: []string{"A: b"}}, "--header needs --url", true},
		{"no URL", Flags{URL: "a.example/mcp"}, "is not an http or https URL", true},
		{"no host", Flags{URL: "http:///mcp"}, "is not an http or https URL", true},
		{"another scheme", Flags{URL: "ws://a.example/mcp"}, "is not an http or https URL", true},
		{"a local file", Flags{URL: "file:///etc/passwd"}, "is not an http or https URL", true},
		{"credentials", Flags{URL: "https://me:pass@a.example/"}, "--url holds credentials", true},
		{"a name of credentials", Flags{URL: "https://pass@a.example/"}, "--url holds credentials", true},
		{"no file", Flags{Config: "none.yaml"}, "none.yaml: no such file", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			got, err := tt.flags.open(t.Context(), e.Env)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "pass@") {
				t.Fatalf("got %v, %v; want %q", got, err, tt.want)
			}
			if _, ok := errors.AsType[command.UsageError](err); ok != tt.usage {
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
			e := commandtest.New(t, "")
			e.LookupEnv = func(name string) (string, bool) { return tt.token, name == TokenVariable && tt.token != "-" }
			got, err := Header(e.Env, tt.headers)
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

// A server that is called directly is named by its address.
//
// X6+ 2026-07-28 client/elicitation: "Clients **MUST** provide clear indication of which
// server is requesting information"
func TestServerOf(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	f := Flags{URL: "http://tools.example:7777/mcp"}
	there, err := f.open(t.Context(), e.Env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = there.close() })
	for _, tt := range []struct {
		at   *Target
		want string
	}{
		{&Target{Started: true}, "the server of a__x"},
		{there, "the server at tools.example:7777"},
	} {
		if got := tt.at.ServerOf("a__x"); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
