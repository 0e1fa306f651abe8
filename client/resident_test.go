// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// statefulLines is a line server that sends updates of subscribed resources in a session,
// once its tool was called in that session.
func statefulLines() *faultyserver.Lines {
	return &faultyserver.Lines{Capabilities: subscribable, On: map[string]func(*faultyserver.Line){
		"resources/subscribe":   func(x *faultyserver.Line) { x.Result(`{}`) },
		"resources/unsubscribe": func(x *faultyserver.Line) { x.Result(`{}`) },
		"tools/call": func(x *faultyserver.Line) {
			x.Send(updated("x:1"))
			x.Polite()
		},
	}}
}

// The calls and listens of one client without a scope use one session, whichever came
// first: the client receives the changes that its own call made.
func TestListenReceivesChangesOfTheClientsCalls(t *testing.T) {
	for name, before := range map[string]int{"the listen is first": 0, "a call is first": 1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c, opened := dialLines(t, statefulLines(), client.Config{})
				call := func() {
					t.Helper()
					res, err := within(t, c, echo(t), &recorder{})
					wantResult(t, res, err, `{"content":[]}`)
				}
				for range before {
					call()
				}
				ear := &recorder{}
				listen := launch(t, c, watching(t, "x:1"), ear)
				synctest.Wait()
				call()
				synctest.Wait()
				wantStrings(t, "told", ear.notifications(), []string{agreedTo("x:1"), told("x:1")})
				listen.cancel()
				<-listen.done
				synctest.Wait()
				if n := opened(); n != 1 {
					t.Errorf("%d sessions, want one", n)
				}
			})
		})
	}
}

// The session of a listen is lent to one call at a time, only to calls of its own
// client, and not after a call in it was given up.
func TestResidentIsLentToOneCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := statefulLines()
		s.On["tools/call"] = func(*faultyserver.Line) {} // never answered
		c, opened := dialLines(t, s, client.Config{})
		launch(t, c, watching(t, "x:1"), &recorder{})
		synctest.Wait()
		first := launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		if n := opened(); n != 1 {
			t.Errorf("%d sessions, want the listen's", n)
		}
		launch(t, c, echo(t), &recorder{})
		other := echo(t)
		other.Principal = "other"
		launch(t, c, other, &recorder{})
		synctest.Wait()
		if n := opened(); n != 3 {
			t.Errorf("%d sessions, want one more for each call beside the first", n)
		}
		first.cancel()
		<-first.done
		launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		if n := opened(); n != 4 {
			t.Errorf("%d sessions, want another one after a call was given up", n)
		}
	})
}

// If a listen ends while its session is lent, the call keeps the session.
func TestListenEndsBeforeItsCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := statefulLines()
		answer := make(chan struct{})
		s.On["tools/call"] = func(x *faultyserver.Line) {
			go func() { // ends with the test's close of answer
				<-answer
				x.Polite()
			}()
		}
		c, _ := dialLines(t, s, client.Config{})
		listen := launch(t, c, watching(t, "x:1"), &recorder{})
		synctest.Wait()
		call := launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		listen.cancel()
		<-listen.done
		synctest.Wait()
		close(answer)
		call.wantResult(t, `{"content":[]}`)
	})
}

// With OneClient the session of the lists is lent to the client's calls, because the
// server is one process. For the server, a client with other capabilities is another
// client.
func TestSoleClientUsesTheSessionOfTheLists(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.Lines{On: map[string]func(*faultyserver.Line){
			"tools/list": func(x *faultyserver.Line) { x.Result(`{"tools":[]}`) },
		}}
		c, opened := dialLines(t, s, client.Config{OneClient: true})
		lists := mcp.NewScope("lists", nil)
		defer lists.End()
		list := func() {
			t.Helper()
			res, err := within(t, c, in(lists, request(t, "tools/list", `{}`)), &recorder{})
			wantResult(t, res, err, `{"tools":[]}`)
		}
		list()
		for range 3 {
			res, err := within(t, c, echo(t), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
			list()
		}
		if n := opened(); n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
		other := echo(t)
		other.Client = &mcp.Peer{Info: other.Client.Info, Capabilities: []byte(`{"sampling":{}}`)}
		if _, err := within(t, c, other, &recorder{}); err != nil {
			t.Error(err)
		}
		if n := opened(); n != 2 {
			t.Errorf("%d sessions, want one more for other capabilities", n)
		}
	})
}

// A client without a session that has declared roots gets a session that is opened for
// its call, because the server asks for the roots right after the handshake. From then
// on its lists, listens and calls use that session, even after a call was given up.
func TestSoleClientWithRoots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, opened := dialLines(t, growingLines(), client.Config{OneClient: true})
		lists := mcp.NewScope("lists", nil)
		defer lists.End()
		wantTools := func(want string) {
			t.Helper()
			res, err := within(t, c, withRoots(in(lists, request(t, "tools/list", `{}`))), &recorder{})
			wantResult(t, res, err, want)
		}
		wantTools(`{"tools":[]}`)
		given := launch(t, c, withRoots(request(t, "tools/call", `{"name":"hang"}`)), &recorder{})
		synctest.Wait()
		given.cancel()
		<-given.done
		ear := &recorder{}
		launch(t, c, withRoots(watching(t, "x:1")), ear)
		synctest.Wait()
		res, err := within(t, c, withRoots(echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		wantTools(`{"tools":[{"name":"grown"}]}`)
		synctest.Wait()
		wantStrings(t, "told", ear.notifications(), []string{agreedTo("x:1"), told("x:1")})
		if n := opened(); n != 2 {
			t.Errorf("%d sessions, want one for the calls", n)
		}
	})
}

// Without roots, the sole client's session also serves listens, and is kept when they
// end.
func TestSoleClientListensInTheSessionOfItsCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c, opened := dialLines(t, growingLines(), client.Config{OneClient: true})
		lists := mcp.NewScope("lists", nil)
		defer lists.End()
		list := in(lists, request(t, "tools/list", `{}`))
		res, err := within(t, c, list, &recorder{})
		wantResult(t, res, err, `{"tools":[]}`)
		ear := &recorder{}
		listen := launch(t, c, watching(t, "x:1"), ear)
		synctest.Wait()
		res, err = within(t, c, echo(t), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		synctest.Wait()
		wantStrings(t, "told", ear.notifications(), []string{agreedTo("x:1"), told("x:1")})
		listen.cancel()
		<-listen.done
		res, err = within(t, c, list, &recorder{})
		wantResult(t, res, err, `{"tools":[{"name":"grown"}]}`)
		if n := opened(); n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
	})
}

// Concurrent calls of the sole client have a session each. When the session of its
// lists has ended, the owner of the lists is notified, and the next call opens another
// one.
func TestSoleClientsSessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ended := 0
		c, opened := dialLines(t, growingLines(), client.Config{OneClient: true, Announced: func(scope *mcp.Scope, gone bool) {
			if scope == nil && gone {
				ended++
			}
		}})
		lists := mcp.NewScope("lists", nil)
		defer lists.End()
		wantTools := func(want string) {
			t.Helper()
			res, err := within(t, c, withRoots(in(lists, request(t, "tools/list", `{}`))), &recorder{})
			wantResult(t, res, err, want)
		}
		call := func() {
			t.Helper()
			res, err := within(t, c, withRoots(echo(t)), &recorder{})
			wantResult(t, res, err, `{"content":[]}`)
		}
		call()
		hung := launch(t, c, withRoots(request(t, "tools/call", `{"name":"hang"}`)), &recorder{})
		synctest.Wait()
		call()
		if n := opened(); n != 2 {
			t.Errorf("%d sessions, want one for each of two calls", n)
		}
		hung.cancel()
		<-hung.done
		wantTools(`{"tools":[{"name":"grown"}]}`)
		if _, err := within(t, c, withRoots(request(t, "tools/call", `{"name":"die"}`)), &recorder{}); err == nil {
			t.Error("a call that ended its process has a result")
		}
		synctest.Wait()
		if ended != 1 {
			t.Errorf("told of %d ends, want one", ended)
		}
		wantTools(`{"tools":[]}`)
		call()
		wantTools(`{"tools":[{"name":"grown"}]}`)
	})
}

// growingLines serves lines. Its tool changes a resource and the list of tools, in its
// own session only. The tool "hang" never answers, and "die" ends the session.
func growingLines() *faultyserver.Lines {
	var mu sync.Mutex
	grown := make(map[any]bool) // by stream
	return &faultyserver.Lines{Capabilities: subscribable, On: map[string]func(*faultyserver.Line){
		"resources/subscribe":   func(x *faultyserver.Line) { x.Result(`{}`) },
		"resources/unsubscribe": func(x *faultyserver.Line) { x.Result(`{}`) },
		"tools/list": func(x *faultyserver.Line) {
			mu.Lock()
			defer mu.Unlock()
			if grown[x.Stream()] {
				x.Result(`{"tools":[{"name":"grown"}]}`)
				return
			}
			x.Result(`{"tools":[]}`)
		},
		"tools/call": func(x *faultyserver.Line) {
			switch name, _ := x.Msg.Params.Text(mcp.FieldName); name {
			case "hang":
				return
			case "die":
				x.Close()
				return
			}
			mu.Lock()
			grown[x.Stream()] = true
			mu.Unlock()
			x.Send(updated("x:1"))
			x.Polite()
		},
	}}
}

// withRoots returns the request with a client that has declared roots.
func withRoots(req *mcp.Request) *mcp.Request {
	req.Client = &mcp.Peer{Info: req.Client.Info, Capabilities: []byte(`{"roots":{}}`)}
	return req
}
