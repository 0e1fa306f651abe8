// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// pages is a server with lists of n pages, each with one item; -1 means without end.
func pages(n int) mcp.Handler {
	return mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		at := 0
		if cursor, ok := req.Params.Text(mcp.FieldCursor); ok {
			if _, err := fmt.Sscanf(cursor, "at \"%d\"", &at); err != nil {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "cursor %q", cursor)
			}
		}
		next := ""
		if at+1 != n {
			next = fmt.Sprintf(`,"nextCursor":"at \"%d\""`, at+1)
		}
		return mcp.NewResult(fmt.Appendf(nil, `{"tools":[{"name":"t%d","n":1.0}]%s}`, at, next))
	})
}

func TestListHasAllPages(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	if err := showLists(t.Context(), e.Env, &target.Target{Handler: pages(3)}, []target.List{target.ToolList()}, true); err != nil {
		t.Fatal(err)
	}
	want := `{"tools": [
  {"name":"t0","n":1.0},
  {"name":"t1","n":1.0},
  {"name":"t2","n":1.0}]}
`
	if got := e.Out.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// On a terminal, each backend of a new gateway is shown when its lists have arrived, before the
// table.
func TestListShowsArrivals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		started, terminal bool
		want              string
	}{
		{"terminal", true, true, `^signalbox: files: 2 tools, 1 prompt, \d+\.\d s\nsignalbox: empty: no items, \d+\.\d s\n$`},
		{"no terminal", true, false, `^$`},
		{"a running gateway", false, true, `^$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			e.Terminal = func(any) bool { return tt.terminal }
			gateway := &target.Target{Handler: pages(1), Started: tt.started, Status: func(context.Context) (*signalbox.Status, error) {
				return &signalbox.Status{Backends: []signalbox.BackendStatus{
					{Name: "files", State: "live", Tools: 2, Prompts: 1}, {Name: "empty", State: "live"}, {Name: "gone", State: "down"},
				}}, nil
			}}
			if err := showLists(t.Context(), e.Env, gateway, []target.List{target.ToolList()}, false); err != nil {
				t.Fatal(err)
			}
			if got := e.Err.String(); !regexp.MustCompile(tt.want).MatchString(got) {
				t.Errorf("printed %q, want %s", got, tt.want)
			}
		})
	}
}

func TestListThatIsWrong(t *testing.T) {
	t.Parallel()
	refuses := mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return nil, mcp.Errorf(mcp.CodeInternalError, "no luck")
	})
	for _, tt := range []struct {
		name   string
		server mcp.Handler
		want   string
	}{
		{"never ends", pages(-1), "list the tools: the list did not end after 1000 pages"},
		{"error", refuses, "list the tools: no luck (code -32603)"},
		{"not a list", commandtest.Answers(`{"tools":{}}`), `list the tools: member "tools" of the response is not a list`},
		{"no list at all", commandtest.Answers(`{}`), `list the tools: member "tools" of the response is not a list`},
		{"items that are none", commandtest.Answers(`{"tools":[{"name":7}]}`), "cannot decode a tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := showLists(t.Context(), commandtest.New(t, "").Env, &target.Target{Handler: tt.server}, []target.List{target.ToolList()}, false)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestListOfAServerWithoutIt(t *testing.T) {
	t.Parallel()
	none := mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
	})
	e := commandtest.New(t, "")
	if err := showLists(t.Context(), e.Env, &target.Target{Handler: none}, []target.List{target.ToolList()}, false); err != nil {
		t.Fatal(err)
	}
	if got := e.Err.String(); got != "no tools\n" || e.Out.String() != "" {
		t.Errorf("printed %q and %q", e.Out, got)
	}
}

func TestTableIsATable(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	server := commandtest.Answers(`{"tools":[
		{"name":"a\u001b[2J","description":"one\ntwo\tthree"},
		{"name":"longer name","title":"The title"},
		{"name":"long","description":"` + strings.Repeat("é", 150) + `"}]}`)
	if err := showLists(t.Context(), e.Env, &target.Target{Handler: server}, []target.List{target.ToolList()}, false); err != nil {
		t.Fatal(err)
	}
	want := `a\x1b[2J     one two three
longer name  The title
long         ` + strings.Repeat("é", 99) + "…\n"
	if got := e.Out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// One long name does not fill the lines of all others.
func TestLongNameInATable(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	long := strings.Repeat("x", 10*output.MaxColumn)
	server := commandtest.Answers(`{"tools":[{"name":"` + long + `","description":"first"},{"name":"short","description":"second"}]}`)
	if err := showLists(t.Context(), e.Env, &target.Target{Handler: server}, []target.List{target.ToolList()}, false); err != nil {
		t.Fatal(err)
	}
	want := long + "  first\nshort" + strings.Repeat(" ", output.MaxColumn-len("short")) + "  second\n"
	if got := e.Out.String(); got != want {
		t.Errorf("the list has\n%s\nwant\n%s", got, want)
	}
	var b bytes.Buffer
	output.WriteColumns(&b, [][]string{{long, "first"}, {"short", "second"}})
	if got := b.String(); got != want {
		t.Errorf("the columns are\n%s\nwant\n%s", got, want)
	}
}
