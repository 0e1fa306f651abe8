// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// model is a simple list of tools: names with their titles.
type model struct{ names, titles []string }

func (m *model) add(name, title string) {
	if i := slices.Index(m.names, name); i >= 0 {
		m.titles[i] = title
		return
	}
	m.names, m.titles = append(m.names, name), append(m.titles, title)
}

func (m *model) remove(name string) {
	if i := slices.Index(m.names, name); i >= 0 {
		m.names, m.titles = slices.Delete(m.names, i, i+1), slices.Delete(m.titles, i, i+1)
	}
}

// listed returns the tools of all pages.
func listed(t *testing.T, m *Mux) (got model) {
	t.Helper()
	params := `{}`
	for {
		var p struct {
			Tools      []struct{ Name, Title string }
			NextCursor json.RawMessage
		}
		if err := json.Unmarshal([]byte(answer(t, m, "tools/list", params)), &p); err != nil {
			t.Fatal(err)
		}
		for _, tool := range p.Tools {
			got.names, got.titles = append(got.names, tool.Name), append(got.titles, tool.Title)
		}
		if p.NextCursor == nil {
			return got
		}
		params = `{"cursor":` + string(p.NextCursor) + `}`
	}
}

// After any sequence of additions, replacements and removals, exactly the existing
// tools are listed, and exactly these can be called.
func TestCatalogAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		m, want := &Mux{HasTools: true, PageSize: random.IntN(4)}, model{}
		for step := range 60 {
			name, title := fmt.Sprintf("t%d", random.IntN(8)), fmt.Sprint(step)
			if random.IntN(3) == 0 {
				want.remove(name)
				if err := m.Remove(Tool{Name: name}); err != nil {
					t.Fatal(err)
				}
			} else {
				want.add(name, title)
				m.MustAdd(Tool{Name: name, Title: title, Call: Always(Say("%s", title))})
			}
			got := listed(t, m)
			if !slices.Equal(got.names, want.names) || !slices.Equal(got.titles, want.titles) {
				t.Fatalf("seed %d, step %d: got %v, want %v", seed, step, got, want)
			}
		}
		for i := range 8 {
			name := fmt.Sprintf("t%d", i)
			got, err := serve(t, m, request(t, "tools/call", `{"name":"`+name+`"}`))
			at := slices.Index(want.names, name)
			if (err == nil) != (at >= 0) || at >= 0 && got != `{"content":[{"type":"text","text":"`+want.titles[at]+`"}]}` {
				t.Errorf("seed %d: %s answers %s, %v", seed, name, got, err)
			}
		}
	}
}

// A walk through the pages during changes returns the items that exist throughout, once
// and in order.
func TestPagesMissNothing(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		m := &Mux{PageSize: 1 + random.IntN(3)}
		var stay []string
		for i := range 12 {
			name := fmt.Sprintf("stays%d", i)
			stay = append(stay, name)
			m.MustAdd(hello(name), hello(fmt.Sprintf("goes%d", i)))
		}
		var seen []string
		for cursor, more := (*string)(nil), true; more; more = cursor != nil {
			var names []string
			names, cursor = pageOf(t, m, cursor)
			seen = append(seen, names...)
			i := random.IntN(12)
			if err := m.Remove(hello(fmt.Sprintf("goes%d", i))); err != nil {
				t.Fatal(err)
			}
			if random.IntN(2) == 0 && len(seen) < 100 { // bounded
				m.MustAdd(hello(fmt.Sprintf("goes%d", i)), hello(stay[i]))
			}
		}
		got := slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return !slices.Contains(stay, name) })
		if !slices.Equal(got, stay) {
			t.Errorf("seed %d: saw %v", seed, seen)
		}
	}
}

// All at once: clients that list, call, listen and leave, while items change and tasks
// run, and Close in the middle.
func TestEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fullMux(t)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() { // ends with its context
				for n := range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n+i)*time.Second)
					req := request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:y"]}}`)
					_, _ = m.Serve(ctx, req, &recorder{})
					cancel()
				}
			})
			all.Go(func() { // ends by itself
				for n := range 20 {
					m.MustAdd(hello(fmt.Sprintf("h%d", (n+i)%3)), note("x:y"))
					_ = m.Updated("x:y")
					_ = m.Remove(hello(fmt.Sprintf("h%d", n%3)))
				}
			})
			all.Go(func() { // likewise
				for range 20 {
					listed(t, m)
					_, _ = serve(t, m, tasking(t, "tools/call", `{"name":"b","arguments":{"name":"Ada"}}`))
					_ = answer(t, m, "resources/read", `{"uri":"x:y"}`)
				}
				_ = m.Close()
			})
		}
		all.Wait()
		if n := listeners(m) + len(m.tasks.all); n != 0 {
			t.Errorf("%d listen or run after the end", n)
		}
	})
}

// prompt is a client that fetches the list as soon as it is listening.
type prompt struct {
	recorder
	fetch func()
}

func (p *prompt) Notify(ctx context.Context, n *mcp.Notification) error {
	if n.Method == "notifications/subscriptions/acknowledged" {
		p.fetch()
	}
	return p.recorder.Notify(ctx, n)
}

// A change while a client begins to listen is in the list that it fetches then, or is
// announced.
func TestChangeWhileListeningBegins(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			m, fetched := New(hello("a")), []string(nil)
			p := &prompt{fetch: func() { fetched = listed(t, m).names }}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { m.MustAdd(hello("b")) }) // ends by itself
			all.Go(func() {                          // ends with ctx, below
				_, _ = m.Serve(ctx, request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`), p)
			})
			synctest.Wait()
			if heard := p.notifications(); len(heard) < 2 && !slices.Contains(fetched, "b") {
				t.Errorf("heard %q, and the list was %v", heard, fetched)
			}
			cancel()
			all.Wait()
		})
	}
}

// A state with a change at any position is invalid. (The last character of base64 may
// have unused bits, and differ without a change.)
func TestStateIsSealedWhole(t *testing.T) {
	m := doing(interview)
	state := roundOf(t, answer(t, m, "tools/call", retry("", `{}`))).RequestState
	for i := range len(state) - 1 {
		other := "A"
		if state[i] == 'A' {
			other = "B"
		}
		changed := state[:i] + other + state[i+1:]
		refused(t, m, request(t, "tools/call", retry(changed, `{"who":`+ada+`}`)), mcp.CodeInvalidParams, "requestState")
	}
}
