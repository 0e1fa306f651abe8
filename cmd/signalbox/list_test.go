// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox"
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

func answers(result string) mcp.Handler {
	return mcp.HandlerFunc(func(context.Context, *mcp.Request, mcp.Caller) (*mcp.Result, error) {
		return mcp.NewResult([]byte(result))
	})
}

func TestListHasAllPages(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	if err := e.showLists(t.Context(), &target{Handler: pages(3)}, []list{toolList()}, true); err != nil {
		t.Fatal(err)
	}
	want := `{"tools": [
  {"name":"t0","n":1.0},
  {"name":"t1","n":1.0},
  {"name":"t2","n":1.0}]}
`
	if got := e.out.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// On a terminal, each backend of a new gateway is shown when its lists have arrived, before the
// table.
func TestListShowsArrivals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		isNew, terminal bool
		want            string
	}{
		{"terminal", true, true, `^signalbox: files: 2 tools, 1 prompt, \d+\.\d s\nsignalbox: empty: no items, \d+\.\d s\n$`},
		{"no terminal", true, false, `^$`},
		{"a running gateway", false, true, `^$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, "")
			e.Terminal = func(any) bool { return tt.terminal }
			gateway := &target{Handler: pages(1), isNew: tt.isNew, status: func(context.Context) (*signalbox.Status, error) {
				return &signalbox.Status{Backends: []signalbox.BackendStatus{
					{Name: "files", State: "live", Tools: 2, Prompts: 1}, {Name: "empty", State: "live"}, {Name: "gone", State: "down"},
				}}, nil
			}}
			if err := e.showLists(t.Context(), gateway, []list{toolList()}, false); err != nil {
				t.Fatal(err)
			}
			if got := e.err.String(); !regexp.MustCompile(tt.want).MatchString(got) {
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
		{"not a list", answers(`{"tools":{}}`), `list the tools: member "tools" of the response is not a list`},
		{"no list at all", answers(`{}`), `list the tools: member "tools" of the response is not a list`},
		{"items that are none", answers(`{"tools":[{"name":7}]}`), "cannot decode a tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := newTestEnv(t, "").showLists(t.Context(), &target{Handler: tt.server}, []list{toolList()}, false)
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
	e := newTestEnv(t, "")
	if err := e.showLists(t.Context(), &target{Handler: none}, []list{toolList()}, false); err != nil {
		t.Fatal(err)
	}
	if got := e.err.String(); got != "no tools\n" || e.out.String() != "" {
		t.Errorf("printed %q and %q", e.out, got)
	}
}

func TestTableIsATable(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	server := answers(`{"tools":[
		{"name":"a\u001b[2J","description":"one\ntwo\tthree"},
		{"name":"longer name","title":"The title"},
		{"name":"long","description":"` + strings.Repeat("é", 150) + `"}]}`)
	if err := e.showLists(t.Context(), &target{Handler: server}, []list{toolList()}, false); err != nil {
		t.Fatal(err)
	}
	want := `a\x1b[2J     one two three
longer name  The title
long         ` + strings.Repeat("é", 99) + "…\n"
	if got := e.out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// One long name does not fill the lines of all others.
func TestLongNameInATable(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, "")
	long := strings.Repeat("x", 10*maxColumn)
	server := answers(`{"tools":[{"name":"` + long + `","description":"first"},{"name":"short","description":"second"}]}`)
	if err := e.showLists(t.Context(), &target{Handler: server}, []list{toolList()}, false); err != nil {
		t.Fatal(err)
	}
	want := long + "  first\nshort" + strings.Repeat(" ", maxColumn-len("short")) + "  second\n"
	if got := e.out.String(); got != want {
		t.Errorf("the list has\n%s\nwant\n%s", got, want)
	}
	var b bytes.Buffer
	writeColumns(&b, [][]string{{long, "first"}, {"short", "second"}})
	if got := b.String(); got != want {
		t.Errorf("the columns are\n%s\nwant\n%s", got, want)
	}
}

func TestNoCallerAnswersNothing(t *testing.T) {
	t.Parallel()
	req, err := mcp.NewRequest("elicitation/create", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mcp.Ask(t.Context(), noCaller{}, req); !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		t.Errorf("got %v", err)
	}
	if err := (noCaller{}).Notify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
