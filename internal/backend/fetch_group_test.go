// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// fiveLists is a server with all five lists, each of one item. Some lists fail.
type fiveLists struct {
	*oddServer

	mu   sync.Mutex
	on   map[string]func(context.Context) error // a list's error, or what it waits for
	item string                                 // the name of each item
}

func newFiveLists(announces bool) *fiveLists {
	l := &fiveLists{oddServer: &oddServer{toolServer: newToolServer(announces, "a")}, item: "one", on: make(map[string]func(context.Context) error)}
	l.oddServer.on = map[string]func(context.Context, mcp.Caller) (*mcp.Result, error){
		"server/discover": answers(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":%t},"resources":{},"prompts":{},"extensions":{"io.modelcontextprotocol/skills":{}}}}`, announces),
	}
	for k, format := range map[catalog.Kind]string{
		catalog.Tools:     `{"tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`,
		catalog.Resources: `{"resources":[{"uri":%q,"name":"n"}]}`,
		catalog.Templates: `{"resourceTemplates":[{"uriTemplate":%q,"name":"n"}]}`,
		catalog.Prompts:   `{"prompts":[{"name":%q}]}`,
		catalog.Skills:    `{"skills":[{"uri":%q,"frontmatter":{}}]}`,
	} {
		l.oddServer.on[k.Method()] = func(ctx context.Context, c mcp.Caller) (*mcp.Result, error) {
			l.mu.Lock()
			f, item := l.on[k.Method()], l.item
			l.mu.Unlock()
			if f != nil {
				if err := f(ctx); err != nil {
					return nil, err
				}
			}
			return answers(format, item)(ctx, c)
		}
	}
	return l
}

// fail makes a list fail from now on; nil ends it.
func (l *fiveLists) fail(k catalog.Kind, f func(context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on[k.Method()] = f
}

func (l *fiveLists) rename(item string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.item = item
}

func with(err error) func(context.Context) error { return func(context.Context) error { return err } }

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// shownItems returns the items of an offer, and "!" for a list that failed.
func shownItems(o *Offer) string {
	var out []string
	for k := range catalog.NumKinds {
		text := string(k.Field().Key()[0])
		for _, item := range o.Lists[k].Items {
			for _, name := range []string{"one", "two"} {
				if strings.Contains(string(item), `"`+name+`"`) {
					text += " " + name
				}
			}
		}
		if o.Lists[k].Failed {
			text += "!"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func wantShown(t *testing.T, b *Backend, state State, want string) {
	t.Helper()
	synctest.Wait()
	if o := b.Offer(); o.State != state || shownItems(o) != want {
		t.Errorf("%v with %q (%s), want %v with %q", o.State, shownItems(o), o.Reason, state, want)
	}
}

// One list that fails, for whatever reason, affects no other list, and recovers by
// itself.
func TestFailedListCostsNoOther(t *testing.T) {
	failures := map[string]struct {
		fail func(context.Context) error
		want string
	}{
		"internal error":  {with(&mcp.Error{Code: -32603, Message: "no database"}), "no database (code -32603)"},
		"invalid params":  {with(&mcp.Error{Code: -32602, Message: "no"}), "no (code -32602)"},
		"own error":       {with(&mcp.Error{Code: -32000, Message: "no"}), "no (code -32000)"},
		"protocol error":  {with(&mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown, Message: "its answer breaks the protocol"}), "its answer breaks the protocol"},
		"not sent":        {with(&mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Message: "HTTP status 403"}), "HTTP status 403"},
		"another failure": {with(errors.New("oh")), "oh"},
		"hangs":           {hangs, "no response or progress for 20s (limits.callIdle)"},
	}
	for name, tt := range failures {
		for k, shown := range [catalog.NumKinds]string{
			"t!, r one, r one, p one, s one", "t one, r!, r one, p one, s one", "t one, r one, r!, p one, s one", "t one, r one, r one, p!, s one",
			"t one, r one, r one, p one, s!",
		} {
			for _, announces := range []bool{false, true} {
				kind := catalog.Kind(k)
				t.Run(fmt.Sprint(name, kind, announces), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newFiveLists(announces)
						l.fail(kind, tt.fail)
						b, _ := follow(t, l, Config{Idle: 20 * time.Second})
						time.Sleep(listTimeout)
						wantShown(t, b, Live, shown)
						time.Sleep(20*time.Second + minRetryDelay)
						wantShown(t, b, Live, shown)
						if got, want := b.Offer().Lists[kind].Problem, kind.Method()+": "+tt.want; got != want && name != "hangs" {
							t.Errorf("problem %q, want %q", got, want)
						}
						l.fail(kind, nil)
						time.Sleep(brokenRetryDelay + 20*time.Second)
						wantShown(t, b, Live, "t one, r one, r one, p one, s one")
						if p := b.Offer().Lists[kind].Problem; p != "" {
							t.Errorf("problem %q of a list that is well", p)
						}
					})
				})
			}
		}
	}
}

// A list that fails later keeps its items.
func TestListThatFailsLaterIsKept(t *testing.T) {
	for _, fail := range []func(context.Context) error{with(errors.New("oh")), hangs} {
		synctest.Test(t, func(t *testing.T) {
			l := newFiveLists(true)
			b, _ := follow(t, l, Config{})
			time.Sleep(3 * time.Second)
			l.fail(catalog.Resources, fail)
			l.rename("two")
			b.Refresh()
			time.Sleep(listTimeout)
			wantShown(t, b, Live, "t two, r one!, r two, p two, s two")
			time.Sleep(DefaultIdle)
			if p := b.Offer().Lists[catalog.Resources].Problem; !strings.HasSuffix(p, "; the previous list is still offered") {
				t.Errorf("problem %q", p)
			}
			l.fail(catalog.Resources, nil)
			time.Sleep(DefaultIdle + maxRetryDelay)
			wantShown(t, b, Live, "t two, r two, r two, p two, s two")
		})
	}
}

// A server is down, or stale, if all its lists fail.
func TestServerWhoseListsAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFiveLists(true)
		for k := range catalog.NumKinds {
			l.fail(k, with(errors.New("oh")))
		}
		b, _ := follow(t, l, Config{})
		wantShown(t, b, Down, "t, r, r, p, s")
		if got := b.Offer().Reason; got != "tools/list: oh" {
			t.Errorf("reason %q", got)
		}
		for k := range catalog.NumKinds {
			l.fail(k, nil)
		}
		time.Sleep(5 * time.Second)
		wantShown(t, b, Live, "t one, r one, r one, p one, s one")
		for k := range catalog.NumKinds {
			l.fail(k, with(errors.New("oh")))
		}
		b.Refresh()
		time.Sleep(time.Millisecond)
		if got := b.Offer().State; got != Stale {
			t.Errorf("state %v", got)
		}
	})
}

// A failed list is fetched again at growing intervals, and one that breaks the
// connection each time so rarely that the server is not made to fail again and again.
func TestFailedListIsRetriedWithBackoff(t *testing.T) {
	for _, tt := range []struct {
		err         error
		least, most int
	}{
		{&mcp.Error{Code: -32603}, 60/1 + 60, 260},
		{&mcp.Fault{Code: mcp.CodeBackendFailed, Outcome: mcp.Unknown}, 30, 62},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newFiveLists(true)
			l.fail(catalog.Resources, with(tt.err))
			b, _ := follow(t, l, Config{})
			time.Sleep(time.Minute)
			if n := l.count("resources/list"); n > 10 {
				t.Errorf("%v: %d times in a minute", tt.err, n)
			}
			time.Sleep(59 * time.Minute)
			if n := l.count("resources/list"); n < tt.least || n > tt.most {
				t.Errorf("%v: %d times in an hour, want %d to %d", tt.err, n, tt.least, tt.most)
			}
			if n := l.count("tools/list"); n > 2 {
				t.Errorf("the list of tools was fetched %d times", n)
			}
			wantState(t, b, Live)
		})
	}
}

// A change of a list that is late, or fails, is counted when the list was fetched.
func TestNoticeOfALateListComesWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFiveLists(true)
		b, _ := follow(t, l, Config{})
		time.Sleep(3 * time.Second)
		late := make(chan struct{})
		l.fail(catalog.Tools, func(context.Context) error { <-late; return nil })
		l.rename("two")
		l.set("b") // notifies of tools
		time.Sleep(2 * listTimeout)
		wantShown(t, b, Live, "t one!, r one, r one, p one, s one")
		if n := b.Offer().Notices[catalog.Tools]; n != 0 {
			t.Errorf("notified %d times before the list was fetched", n)
		}
		close(late)
		time.Sleep(minRelistInterval)
		wantShown(t, b, Live, "t two, r one, r one, p one, s one")
		if n := b.Offer().Notices[catalog.Tools]; n != 1 {
			t.Errorf("notified %d times, want once", n)
		}
	})
}

// Answered reports known lists one by one.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFiveLists(false)
		l.fail(catalog.Resources, hangs)
		b, _ := follow(t, l, Config{Idle: 30 * time.Second})
		if b.Offer().Answered(catalog.Tools) {
			t.Error("known before it was asked for")
		}
		time.Sleep(listTimeout)
		synctest.Wait()
		for k := range catalog.NumKinds {
			if got := b.Offer().Answered(k); got != (k != catalog.Resources) {
				t.Errorf("%s: known %v", k, got)
			}
		}
		time.Sleep(30 * time.Second)
		if !b.Offer().Answered(catalog.Resources) {
			t.Error("a list that failed is awaited still")
		}
	})
}
