// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Each problem has the place of the rule that it is about. What clients lose without a rule is
// withheld.
func TestListProblemsHavePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `policy:
  otherwise: allow
  rules:
    - {name: r, deny: 'args.x == 1', on: [one__a, one__none, off__a, renamed]}
mcpServers:
  one:
    url: http://one/mcp
    include: [a, b, none]
    exclude: [gone]
  two: {url: "http://two/mcp", prefix: "", rename: {"x.y": z}}
  three: {url: "http://three/mcp", prefix: ""}
  bad: {url: "http://bad/mcp"}
  off: {url: "http://off/mcp", disabled: true, rename: {some: renamed}}
profiles:
  part: {servers: [one, off], include: ["one__*", "off__*"], exclude: [one__gone]}
  find: {servers: [one, two], view: search, always: [one__a, shared]}
`
		bad := gatewaytest.ServerWithTools(true)
		bad.On["tools/list"] = gatewaytest.ResultHandler(`{"tools":[{"name":"none"}]}`)
		servers := gatewaytest.Backends{
			"one": gatewaytest.ServerWithTools(true, "a", "b"), "bad": bad,
			"two": gatewaytest.ServerWithTools(true, "shared", "find_tool"), "three": gatewaytest.ServerWithTools(true, "shared"),
		}
		e := openExplained(t, servers, text)
		if err := e.G.AwaitLists(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range e.G.ListProblems() {
			line := fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Path, p.Code)
			if p.Withheld {
				line += " withheld"
			}
			if got = append(got, line); p.File != e.file || !strings.HasSuffix(e.G.Status().Problems[len(got)-1], p.Message+codeAtEnd(p.Code)) {
				t.Errorf("got %v, and the status has %q", p, e.G.Status().Problems[len(got)-1])
			}
		}
		want := []string{
			"12:3 mcpServers.bad ",
			"10:3 mcpServers.two SB_NAME_CONFLICT withheld",
			"11:3 mcpServers.three SB_NAME_CONFLICT withheld",
			"8:21 mcpServers.one.include[2] SB_NAME_UNUSED_RULE",
			"9:15 mcpServers.one.exclude[0] SB_NAME_UNUSED_RULE",
			`10:53 mcpServers.two.rename["x.y"] SB_NAME_UNUSED_RULE`,
			"15:72 profiles.part.exclude[0] SB_NAME_UNUSED_RULE",
			"16:62 profiles.find.always[1] SB_NAME_UNUSED_RULE",
			"16:3 profiles.find SB_NAME_RESERVED withheld",
			"14:1 profiles.search SB_NAME_RESERVED",
			"4:51 policy.rules[0].on[1] SB_NAME_UNUSED_RULE",
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
	})
}

func codeAtEnd(code string) string {
	if code == "" {
		return ""
	}
	return " [" + code + "]"
}

// AwaitLists returns when the slowest list is offered, or when its context or the Gateway ends.
func TestAwaitLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := gatewaytest.ServerWithTools(true, "late")
		slow.Capabilities = `{"tools":{},"prompts":{}}`
		slow.On["prompts/list"] = func(x *faultyserver.Exchange) {
			select {
			case <-time.After(5 * time.Second):
				x.Result(`{"prompts":[{"name":"late"}]}`)
			case <-x.R.Context().Done():
			}
		}
		servers := gatewaytest.Backends{"slow": slow}
		const text = "mcpServers: {slow: {url: http://slow/mcp}, gone: {url: http://gone/mcp}}\n"
		g := openExplained(t, servers, text).G
		began := time.Now()
		brief, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if err := g.AwaitLists(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the list: %v", err)
		}
		if err := g.AwaitLists(t.Context()); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("returned after %v, %v", time.Since(began), err)
		}
		if offered := g.Status().Backends[0].Offered; offered.Tools != 1 || offered.Prompts != 1 {
			t.Errorf("offered %+v", offered)
		}

		closed := openExplained(t, servers, text).G
		err := make(chan error)
		go func() { err <- closed.AwaitLists(t.Context()) }()
		synctest.Wait()
		if err := closed.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-err; !errors.Is(err, signalbox.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
