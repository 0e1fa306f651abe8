// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/signalbox-mcp/signalbox/config"
)

func noEnv(string) (string, bool) { return "", false }

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if path, ok := config.Find(dir); ok {
		t.Errorf("an empty folder has %s", path)
	}
	if err := os.Mkdir(filepath.Join(dir, "signalbox.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcp.json", ".mcp.json", "signalbox.json"} { // each has precedence over the previous one
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if path, ok := config.Find(dir); !ok || path != filepath.Join(dir, name) {
			t.Errorf("Find = %q, %t, want %s", path, ok, name)
		}
	}
	if err := os.Remove(filepath.Join(dir, "signalbox.yaml")); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "signalbox.yaml")
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, ok := config.Find(dir); !ok || path != want {
		t.Errorf("Find = %q, %t, want %s", path, ok, want)
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), noEnv)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		t.Errorf("a file that is not there has problems: %v", problems)
	}
}

// TestProblemsAsData checks the fields of a problem.
func TestProblemsAsData(t *testing.T) {
	text := "mcpServers:\n  a: {command: x, args: [1], comand: y}\n  b: {}\n"
	_, err := config.Parse("dir/x.yaml", []byte(text), noEnv)
	got, ok := errors.AsType[config.Problems](err)
	if !ok {
		t.Fatalf("error %T, want Problems", err)
	}
	want := config.Problems{
		{File: "dir/x.yaml", Line: 2, Column: 26, Path: "mcpServers.a.args[0]", Message: `"args[0]" must be a string, not a number`, Hint: "put it in quotes"},
		{File: "dir/x.yaml", Line: 2, Column: 30, Path: "mcpServers.a.comand", Message: `unknown key "comand"`, Hint: `did you mean "command"?`},
		{File: "dir/x.yaml", Line: 3, Column: 3, Path: "mcpServers.b", Message: `"b" has neither "command" nor "url"`},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
}

// TestByteOrderMark checks that a byte order mark is not part of the text.
func TestByteOrderMark(t *testing.T) {
	for _, name := range []string{"x.yaml", "x.json"} {
		if _, err := config.Parse(name, []byte("\ufeff"+`{"mcpServers": {"a": {"command": "x"}}}`), nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValidateAfterAFlag validates a Config after a flag has changed the address.
//
// T4- 2026-07-28 basic/transports/streamable-http: "Servers **SHOULD** implement
// proper authentication for all connections."
func TestValidateAfterAFlag(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte("mcpServers: {}\n"), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	c.Listen = "0.0.0.0:80"
	err = c.Validate()
	if err == nil || !strings.HasPrefix(err.Error(), `listen: "listen" reaches beyond this machine`) || !strings.Contains(err.Error(), "allowUnauthenticated") {
		t.Errorf("error %v, want the address refused and the setting named", err)
	}
	c.AllowUnauthenticated = true
	if err := c.Validate(); err != nil {
		t.Errorf("allowed deliberately: %v", err)
	}
}

// Without a configured address only this machine can reach the gateway, whatever else the file
// contains.
//
// T3+ 2026-07-28 basic/transports/streamable-http: "When running locally, servers
// **SHOULD** bind only to localhost (127.0.0.1) rather than all network interfaces
// (0.0.0.0)."
func TestListenByDefault(t *testing.T) {
	for _, text := range []string{"mcpServers: {}\n", "allowUnauthenticated: true\nallowedHosts: [mcp.example.com]\nmcpServers: {}\n"} {
		c, err := config.Parse("x.yaml", []byte(text), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		at, err := netip.ParseAddrPort(c.Effective().Listen)
		if err != nil || !at.Addr().IsLoopback() {
			t.Errorf("%q listens on %q, %v; want an address of loopback", text, c.Effective().Listen, err)
		}
	}
}

// TestValidateLoopback distinguishes the addresses of this machine from others.
//
// T3- 2026-07-28 basic/transports/streamable-http: "When running locally, servers
// **SHOULD** bind only to localhost (127.0.0.1) rather than all network interfaces
// (0.0.0.0)."
func TestValidateLoopback(t *testing.T) {
	tests := map[string]bool{
		"": true, "127.0.0.1:0": true, "127.9.9.9:80": true, "localhost:80": true, "LOCALHOST:80": true, "[::1]:80": true,
		"[::ffff:127.0.0.1]:80": true,
		":80":                   false, "0.0.0.0:80": false, "[::]:80": false, "192.168.1.2:80": false, "localhost.example.com:80": false,
		"[fe80::1%eth0]:80": false, "128.0.0.1:80": false,
	}
	for listen, want := range tests {
		c := config.Config{Listen: listen}
		if err := c.Validate(); (err == nil) != want {
			t.Errorf("listen %q: %v, want allowed %t", listen, err, want)
		}
	}
}

// TestValidateInvented validates a Config that no file can produce.
func TestValidateInvented(t *testing.T) {
	c := config.Config{
		Servers: []config.Backend{
			{Name: "a", Command: "x", Type: "pigeon", Era: "stone"},
			{Name: "a", Command: "x"},
		},
		Auth:     config.Auth{Tokens: []config.Token{{Principal: "p", Value: config.NewSecret("t")}}},
		Conflict: "war",
		Log:      config.Log{Level: "loud", Format: "song"},
	}
	want := `conflict: "conflict" must be one of [hide first]
log.level: "level" must be one of [debug info warn error]
log.format: "format" must be one of [text json]
mcpServers.a.type: "type" must be one of [stdio http streamable-http sse]
mcpServers.a.type: the type "pigeon" needs a "url", and "a" has a "command" (write "stdio")
mcpServers.a.era: "era" must be one of [auto legacy modern 2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28]
mcpServers.a: two servers have the name "a"`
	if diff := cmp.Diff(c.Validate().Error(), want); diff != "" {
		t.Errorf("problems (-got +want):\n%s", diff)
	}
}

func TestEffective(t *testing.T) {
	c := config.Config{
		Listen:  "[::1]:1",
		Limits:  config.Limits{Sessions: 7, CallIdle: -1},
		Servers: []config.Backend{{Name: "a", Command: "x"}, {Name: "b", Command: "x", Era: "modern"}},
	}
	before, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Effective()
	after, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(after), string(before)); diff != "" {
		t.Errorf("the config itself changed (-got +want):\n%s", diff)
	}
	want := &config.Config{
		Servers: []config.Backend{{Name: "a", Command: "x", Era: "auto"}, {Name: "b", Command: "x", Era: "modern"}},
		Listen:  "[::1]:1", Path: "/mcp", Name: "signalbox", Conflict: config.ConflictHide, Reload: config.ReloadGuarded,
		Search:  config.Search{Above: 10_000},
		Results: config.Results{Keep: 30 * time.Minute, Total: 256 << 20, Structured: config.StructuredPass},
		Limits: config.Limits{
			RequestBody: 4 << 20, RequestHeaders: 64 << 10, BackendMessage: 16 << 20, Schema: 256 << 10, LogLine: 8 << 10,
			EventLog: 1 << 20, EventLogs: 256 << 20, Pending: 128 << 20, PendingPerPrincipal: 64 << 20, EventRetention: 5 * time.Minute,
			Depth: 128, Members: 100_000, Batch: 100, ToolsPerBackend: 2000, Pages: 200, Rounds: 10,
			Sessions: 7, SessionsPerPrincipal: 100, StreamsPerSession: 16, InFlightPerSession: 64, InFlightPerPrincipal: 1024,
			Parked: 1000, Subscriptions: 1000, BackendSessions: 64, Processes: 64,
			SessionIdle: 30 * time.Minute, SessionUninitialized: 30 * time.Second,
			CallIdle: -1, CallMax: 10 * time.Minute, InputWait: 10 * time.Minute, FirstList: time.Minute,
			Connect: 10 * time.Second, Handshake: time.Minute, Write: 10 * time.Second, HeaderRead: 5 * time.Second,
		},
		Drain: config.Drain{Delay: 5 * time.Second, Spread: 30 * time.Second, Timeout: time.Minute},
		Log:   config.Log{Level: "info", Format: "text"},
	}
	if diff := cmp.Diff(got, want, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(config.Config{})); diff != "" {
		t.Errorf("effective (-got +want):\n%s", diff)
	}
}

func TestServerOffers(t *testing.T) {
	tests := []struct {
		name string
		s    config.Backend
		want map[string]bool
	}{
		{"no rules", config.Backend{}, map[string]bool{"read": true, "": true}},
		{"included", config.Backend{Include: []string{"read_*", "stat"}}, map[string]bool{"read_file": true, "stat": true, "write": false}},
		{"excluded", config.Backend{Exclude: []string{"write*"}}, map[string]bool{"read": true, "write": false, "write_file": false}},
		{"both", config.Backend{Include: []string{"*_file"}, Exclude: []string{"write_*"}}, map[string]bool{"read_file": true, "write_file": false, "stat": false}},
	}
	for _, tt := range tests {
		for name, want := range tt.want {
			if got := tt.s.Offers(name); got != want {
				t.Errorf("%s: Offers(%q) = %t, want %t", tt.name, name, got, want)
			}
		}
	}
}

func TestServerTransport(t *testing.T) {
	tests := []struct {
		s    config.Backend
		want config.Type
	}{
		{config.Backend{Command: "x"}, config.TypeStdio},
		{config.Backend{URL: "https://x/"}, config.TypeHTTP},
		{config.Backend{URL: "https://x/", Type: config.TypeHTTP}, config.TypeHTTP},
		{config.Backend{URL: "https://x/", Type: config.TypeStreamableHTTP}, config.TypeHTTP},
		{config.Backend{URL: "https://x/", Type: config.TypeSSE}, config.TypeSSE},
	}
	for _, tt := range tests {
		if got := tt.s.Transport(); got != tt.want {
			t.Errorf("Transport of %+v = %q, want %q", tt.s, got, tt.want)
		}
	}
}
