// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
)

// served is the JSON of a status, with a reason from a hostile backend.
const served = `{
	"version": "1.2.3", "started": "2026-07-28T10:00:00Z", "uptime": "3h0m5s", "draining": true,
	"sessions": 1, "inFlight": 2, "later": {"a": ["revision's member"]},
	"backends": [
		{"name": "files", "state": "live", "era": "modern", "version": "2026-07-28", "tools": 12, "toolBytes": 8400, "resources": 3, "templates": 1, "prompts": 0, "offered": {"tools": 11, "resources": 3, "templates": 1, "prompts": 0}, "since": "2026-07-28T12:58:00Z"},
		{"name": "wiki", "state": "stale", "reason": "gone\nsince\u001b[2J noon", "era": "legacy", "version": "2025-06-18", "tools": 1, "toolBytes": 211, "resources": 0, "templates": 0, "prompts": 7, "offered": {"tools": 1, "resources": 0, "templates": 0, "prompts": 7}, "since": "2026-07-28T10:30:05Z"},
		{"name": "dead", "state": "down", "reason": "connection refused", "tools": 0, "resources": 0, "templates": 0, "prompts": 0}],
	"problems": ["reload refused: a.yaml:1:1: one", "reload refused: a.yaml:2:1: two", "backend \"files\": tool \"x\": left out"],
	"reloadRefused": {"at": "2026-07-28T13:00:00Z", "problems": ["a.yaml:1:1: one", "a.yaml:2:1: two"]},
	"limits": {"write": "10s", "batch": "100"}, "promise": "one process"}`

const shown = `signalbox 1.2.3 at http://HOST, up for 3h0m5s
draining: new sessions are rejected, and the gateway exits when the running calls have ended
1 session, 2 in flight

BACKEND  STATE  SPEAKS      OFFERS  LISTS  TOOLS  ≈TOKENS  RESOURCES  TEMPLATES  PROMPTS  LISTED
files    live   2026-07-28  15      16     11/12  2.1k     3          1          0        2m ago
wiki     stale  2025-06-18  8       8      1      53       0          0          7        2h ago
dead     down   -           0       0      0      0        0          0          0        never
wiki is stale: gone since\x1b[2J noon
dead is down: connection refused

reload refused: a.yaml:1:1: one
reload refused: a.yaml:2:1: two
(5s ago; the previous configuration stays in effect)
backend "files": tool "x": left out
`

func TestStatusIsPrinted(t *testing.T) {
	t.Parallel()
	const limits = "\nlimits.batch  100\nlimits.write  10s\n"
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"for people", nil, shown},
		{"with limits", []string{"--limits"}, shown + limits},
		{"with the promise", []string{"--promise"}, shown + "\none process\n"},
		{"as it is", []string{"--json"}, served + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address, _ := commandtest.StatusServer(t, commandtest.Answering(200, "application/json", served+"\n"))
			e := commandtest.New(t, "")
			if err := e.Execute(t.Context(), New(e.Env), append([]string{"--url", address.String() + "/mcp"}, tt.args...)...); err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(e.Out.String(), address.Host, "HOST")
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("printed (-got +want):\n%s", diff)
			}
		})
	}
}

func TestStatusAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config string
		args         []string
		want, err    string
	}{
		{name: "nothing configured", want: "http://127.0.0.1:7777/status"},
		{name: "configured", config: "listen: 127.0.0.1:99", want: "http://127.0.0.1:99/status"},
		{name: "on all addresses", config: "listen: '0.0.0.0:99'\nauth: {tokens: [{principal: me, env: GATE}]}", want: "http://127.0.0.1:99/status"},
		{name: "on all of both kinds", config: "listen: ':99'\nauth: {tokens: [{principal: me, env: GATE}]}", want: "http://127.0.0.1:99/status"},
		{name: "another endpoint", config: "path: /deep/mcp", want: "http://127.0.0.1:7777/status"},
		{name: "a port that is not known", config: "listen: 127.0.0.1:0", err: "means another port at each start; name the gateway with --url"},
		{name: "a wrong file", config: "lisen: x", err: "to ask a gateway without its configuration file, use --url"},
		{name: "URL of the endpoint", args: []string{"--url", "https://a.example/mcp?x#y"}, want: "https://a.example/status"},
		{name: "URL of nothing", args: []string{"--url", "http://a.example"}, want: "http://a.example/status"},
		{name: "URL of a status", args: []string{"--url", "http://a.example/box/status"}, want: "http://a.example/box/status"},
		{name: "no URL", args: []string{"--url", "a.example"}, err: `--url "a.example" is not an http or https URL`},
		{name: "credentials", args: []string{"--url", "http://me:pass@a.example"}, err: "--url holds credentials"},
		{name: "credentials that are torn", args: []string{"--url", "http://me:pa ss@a.example"}, err: "--url holds credentials"},
		{name: "both", args: []string{"--url", "http://a.example", "--config", "x.yaml"}, err: "both --url and --config; choose one"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			e.LookupEnv = func(name string) (string, bool) { return "abcdefghijklmnopqrstuvwxyz", name == "GATE" }
			if tt.config != "" {
				commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), tt.config+"\nmcpServers: {}\n")
			}
			var f statusFlags
			if i := len(tt.args); i > 0 {
				f.url = tt.args[1]
			}
			if len(tt.args) > 2 {
				f.config = tt.args[3]
			}
			got, err := f.address(e.Env)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "pass") {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("got %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		past time.Duration
		want string
	}{
		{-time.Second, "just now"}, // clocks differ
		{999 * time.Millisecond, "just now"},
		{time.Second, "1s ago"},
		{59 * time.Second, "59s ago"},
		{time.Minute, "1m ago"},
		{59*time.Minute + 59*time.Second, "59m ago"},
		{time.Hour, "1h ago"},
		{47 * time.Hour, "47h ago"},
		{48 * time.Hour, "2d ago"},
	} {
		t.Run(tt.past.String(), func(t *testing.T) {
			t.Parallel()
			if got := output.Ago(now, now.Add(-tt.past)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := output.Ago(now, time.Time{}); got != "never" {
		t.Errorf("got %q", got)
	}
}

// The lists of users are described by their numbers.
func TestStatusOfUserLists(t *testing.T) {
	t.Parallel()
	s := &control.Status{}
	s.Backends = []signalbox.BackendStatus{{Name: "crm", State: "live", Users: &signalbox.UserListsStatus{Users: 4, Lists: 2, Stale: 1, Down: 1}}}
	const want = "crm has lists for each user that is signed in: 4 users, 2 different lists, 1 with lists from before it was lost, 1 without, as it cannot be reached\n"
	if got := string(statusText("at x", s, &statusFlags{})); !strings.Contains(got, want) {
		t.Errorf("status:\n%s", got)
	}
}

// What is kept of large results is shown where results are cut.
func TestStatusOfResults(t *testing.T) {
	t.Parallel()
	s := &control.Status{}
	if got := string(statusText("at x", s, &statusFlags{})); strings.Contains(got, "cut") {
		t.Errorf("status:\n%s", got)
	}
	s.Results = &signalbox.ResultsStatus{Kept: 2, Bytes: 3 << 10, Cut: 5, Evicted: 1}
	const want = "5 results of tools cut, 2 kept with 3 KiB, 1 dropped for lack of room\n"
	if got := string(statusText("at x", s, &statusFlags{})); !strings.Contains(got, want) || strings.Contains(got, "output schemas") {
		t.Errorf("status:\n%s", got)
	}
	s.Results.Whole = 3
	const whole = want + "results of 3 tools are not cut, because of output schemas (results.structured)\n"
	if got := string(statusText("at x", s, &statusFlags{})); !strings.Contains(got, whole) {
		t.Errorf("status:\n%s", got)
	}
}
