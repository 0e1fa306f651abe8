// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// listening has a recorder listen until the test's end, in a bubble.
func listening(t *testing.T, m *Mux, filter string) *recorder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a, over := &recorder{}, make(chan error, 1)
	req := request(t, "subscriptions/listen", `{"notifications":`+filter+`}`)
	go func() { // ends with ctx; the cleanup waits
		res, err := m.Serve(ctx, req, a)
		if err == nil && string(res.Bytes()) != `{}` {
			err = errors.New("the listen ended with " + string(res.Bytes()))
		}
		over <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return a
}

const acknowledged = `subscriptions/acknowledged {"notifications":`

// A listening client gets the acknowledgement first, and then the agreed notifications,
// and no others.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(hello("a"), note("x:y"), verse("v"))
		t.Cleanup(func() { // the last of all
			if n := listeners(m); n != 0 {
				t.Errorf("%d listen after the end", n)
			}
		})
		tools := listening(t, m, `{"toolsListChanged":true,"unheardOf":true}`)
		others := listening(t, m, `{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:y","x:unknown","x:y"]}`)
		heard(t, tools.notifications(), acknowledged+`{"toolsListChanged":true}}`)
		heard(t, others.notifications(), acknowledged+`{"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:y"]}}`)
		for _, step := range []struct {
			do            func() error
			tools, others []string
		}{
			{func() error { return m.Add(hello("b")) }, []string{"tools/list_changed "}, nil},
			{func() error { return m.Add(hello("b")) }, []string{"tools/list_changed "}, nil},
			{func() error { return m.Remove(hello("b")) }, []string{"tools/list_changed "}, nil},
			{func() error { return m.Remove(hello("b")) }, nil, nil},
			{func() error { return m.Add(verse("w"), hello("c"), note("x:z")) }, []string{"tools/list_changed "}, []string{"prompts/list_changed ", "resources/list_changed "}},
			{func() error { return m.Add(Template{URI: "t:{a}", Name: "t", Read: note("").Read}) }, nil, []string{"resources/list_changed "}},
			{func() error { return m.Updated("x:y") }, nil, []string{`resources/updated {"uri":"x:y"}`}},
			{func() error { return m.Updated("x:y/part") }, nil, []string{`resources/updated {"uri":"x:y/part"}`}},
			{func() error { return m.Updated("x:z") }, nil, nil},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			heard(t, tools.notifications(), step.tools...)
			heard(t, others.notifications(), step.others...)
		}
	})
}

// A Mux agrees only to notifications that it can send.
func TestListenToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:y"],"taskIds":["t"]}`
		fixed := &Mux{Fixed: true}
		fixed.MustAdd(hello("a"), note("x:y"), verse("v"))
		for _, m := range []*Mux{{}, fixed} {
			heard(t, listening(t, m, all).notifications(), acknowledged+`{}}`)
		}
		refused(t, new(Mux), request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":1}}`), mcp.CodeInvalidParams, "not a notification filter")
		var many strings.Builder
		for i := range maxTopics {
			fmt.Fprintf(&many, `"x:%d",`, i)
		}
		refused(t, fixed, request(t, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":[`+many.String()+`"x:y"]}}`), mcp.CodeInvalidParams, "1001 resources and tasks")
		twice := `{"resourceSubscriptions":[` + many.String() + `"x:0"]}` // a duplicate
		heard(t, listening(t, fixed, twice).notifications(), acknowledged+`{}}`)
	})
}

// slow is a client that receives one notification at a time.
type slow struct {
	recorder
	next chan struct{}
}

func (s *slow) Notify(ctx context.Context, n *mcp.Notification) error {
	select {
	case <-s.next:
		return s.recorder.Notify(ctx, n)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Many changes are one notification to a slow client, and there is one after the last
// change.
func TestChangesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(hello("a"), note("x:y"))
		ctx, cancel := context.WithCancel(t.Context())
		s, over := &slow{next: make(chan struct{})}, make(chan struct{})
		req := request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:y"]}}`)
		go func() { // ends with ctx, below
			_, _ = m.Serve(ctx, req, s)
			close(over)
		}()
		storm := func() {
			for range 100 {
				m.MustAdd(hello("b"))
				_ = m.Updated("x:y")
			}
		}
		synctest.Wait()
		storm() // before the acknowledgement has been received
		for range 2 {
			s.next <- struct{}{}
		}
		synctest.Wait()
		storm() // while the first notification is being received
		for range 3 {
			s.next <- struct{}{}
			synctest.Wait()
		}
		const tools, updated = "tools/list_changed ", `resources/updated {"uri":"x:y"}`
		heard(t, s.notifications(), acknowledged+`{"toolsListChanged":true,"resourceSubscriptions":["x:y"]}}`, tools, updated, tools, updated)
		cancel()
		<-over
	})
}
