// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A cursor of another principal continues the list of its sender, after an item that both see. One
// that names an item which the sender does not see is answered like one that names none (identity
// attack 12; N5).
func TestCursorOfAnotherPrincipal(t *testing.T) {
	for _, tt := range []struct {
		hidden string // from all but ann: the tools with this last digit
		isSeen bool   // by bob: the tools with which the pages of ann end
	}{{"5", true}, {"9", false}} {
		t.Run("without "+tt.hidden, func(t *testing.T) {
			g := readyGateway(t, config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
				{Name: "some", Deny: fmt.Sprintf(`principal.name != "ann" && item.own.endsWith(%q)`, tt.hidden)},
			}}, 2000)
			list := func(sender, cursor string) (tools []string, next string, err error) {
				t.Helper()
				params := `{}`
				if cursor != "" {
					params = fmt.Sprintf(`{"cursor":%q}`, cursor)
				}
				res, err := g.Serve(t.Context(), benchRequest(t, benchIdentity(sender), "tools/list", params), nil)
				if err != nil {
					return nil, "", err
				}
				var page struct {
					Tools []struct {
						Name string `json:"name"`
					} `json:"tools"`
					Next string `json:"nextCursor"`
				}
				if err := json.Unmarshal(res.Bytes(), &page); err != nil {
					t.Fatal(err)
				}
				for _, tool := range page.Tools {
					tools = append(tools, tool.Name)
				}
				return tools, page.Next, nil
			}
			all := func(sender, cursor string) (tools, cursors []string) {
				t.Helper()
				for {
					page, next, err := list(sender, cursor)
					if err != nil {
						t.Fatal(err)
					}
					if tools = append(tools, page...); next == "" {
						return tools, cursors
					}
					cursor, cursors = next, append(cursors, next)
				}
			}
			anns, cursors := all("ann", "")
			bobs, _ := all("bob", "")
			if len(anns) != 2000 || len(bobs) != 1800 || len(cursors) != 1 || slices.ContainsFunc(bobs, func(name string) bool { return strings.HasSuffix(name, tt.hidden) }) {
				t.Fatalf("%d tools, %d tools, %d pages", len(anns), len(bobs), len(cursors))
			}
			for i, cursor := range cursors {
				last := anns[1000*(i+1)-1]
				if !tt.isSeen {
					forged := base64.RawURLEncoding.EncodeToString(slices.Concat(cursorMark(t, cursor), []byte(last+"x")))
					_, _, err := list("bob", cursor)
					_, _, other := list("bob", forged)
					if err == nil || other == nil || err.Error() != other.Error() {
						t.Errorf("a cursor after %s: %v; after a tool that does not exist: %v", last, err, other)
					}
					continue
				}
				got, _ := all("bob", cursor)
				if want := bobs[slices.Index(bobs, last)+1:]; !slices.Equal(got, want) {
					t.Errorf("after %s: %d tools, want %d", last, len(got), len(want))
				}
			}
		})
	}
}

// cursorMark returns what a cursor has before the name of a tool.
func cursorMark(t *testing.T, cursor string) []byte {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	before, _, ok := strings.Cut(string(text), "b__")
	if err != nil || !ok {
		t.Fatalf("cursor %q: %v", cursor, err)
	}
	return []byte(before)
}

// A cursor of tasks/list leads to tasks of its sender only (identity attack 12).
func TestCursorOfTasksOfAnother(t *testing.T) {
	withTaskServer(t, func(t *testing.T, g *Gateway, b *taskServer) {
		started := 0
		b.serve = func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			id, ok := req.Params.Text(mcp.FieldTaskID)
			if !ok {
				started++
				id = fmt.Sprint("t", started)
			}
			return mcp.NewResult(fmt.Appendf(nil, `{"resultType":"task","taskId":%q,"status":"working","ttlMs":null}`, id))
		}
		serve := func(sender, method, params string) string {
			t.Helper()
			scope := mcp.NewScope("1", &callRecorder{})
			defer scope.End()
			req := ask(t, scope, method, params)
			req.Principal = sender
			res, err := g.Serve(t.Context(), req, noCaller{})
			if err != nil {
				t.Fatal(err)
			}
			return string(res.Bytes())
		}
		start := func(sender string, n int) {
			for range n {
				serve(sender, "tools/call", `{"name":"a__x"}`)
			}
		}
		start("bob", 1)
		start("ann", listPageSize+1)
		start("bob", 1)
		_, next, ok := strings.Cut(serve("ann", "tasks/list", `{}`), `"nextCursor":"`)
		if !ok {
			t.Fatal("ann has one page")
		}
		cursor, _, _ := strings.Cut(next, `"`)
		want := g.taskIDs.encode("a", fmt.Sprint("t", started), "bob")
		if got := serve("bob", "tasks/list", `{"cursor":"`+cursor+`"}`); strings.Count(got, "taskId") != 1 || !strings.Contains(got, want) {
			t.Errorf("bob has with a cursor of ann: %s, want his second task", got)
		}
		if got := serve("eve", "tasks/list", `{"cursor":"`+cursor+`"}`); got != `{"tasks":[]}` {
			t.Errorf("eve has with a cursor of ann: %s", got)
		}
	})
}
