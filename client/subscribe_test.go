// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

const subscribable = `{"resources":{"subscribe":true,"listChanged":true}}`

// watching returns a listen for resources.
func watching(t *testing.T, uris ...string) *mcp.Request {
	t.Helper()
	return request(t, "subscriptions/listen", fmt.Sprintf(`{"notifications":{"resourceSubscriptions":["%s"]}}`, strings.Join(uris, `","`)))
}

func updated(uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}`
}

func agreedTo(uris ...string) string {
	return fmt.Sprintf(`subscriptions/acknowledged {"notifications":{"resourceSubscriptions":["%s"]}}`, strings.Join(uris, `","`))
}

func told(uri string) string { return `resources/updated {"uri":"` + uri + `"}` }

// newSubscribable returns a legacy server that accepts subscriptions.
func newSubscribable() *station {
	s := newStation()
	s.Capabilities = subscribable
	s.On["resources/subscribe"] = func(x *faultyserver.Exchange) { x.Result(`{}`) }
	s.On["resources/unsubscribe"] = func(x *faultyserver.Exchange) { x.Result(`{}`) }
	return s
}

// subscribing returns the subscribe and unsubscribe requests, as "+uri" and "-uri", in
// order.
func subscribing(s *faultyserver.HTTP) []string {
	var all []string
	for _, r := range s.Seen() {
		_, rest, _ := strings.Cut(r.Body, `"uri":"`)
		uri, _, _ := strings.Cut(rest, `"`)
		switch r.Method {
		case "resources/subscribe":
			all = append(all, "+"+uri)
		case "resources/unsubscribe":
			all = append(all, "-"+uri)
		}
	}
	return all
}

// A session is subscribed to a resource once, however many listens ask for it, until
// the last of them ends. Each listen receives only its own resources.
func TestSubscriptionsOfASessionAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		a, b := &recorder{}, &recorder{}
		la := launch(t, c, in(scope, watching(t, "x:1", "x:2")), a)
		<-s.open
		synctest.Wait()
		lb := launch(t, c, in(scope, watching(t, "x:2")), b)
		synctest.Wait()
		s.listen <- updated("x:1")
		s.listen <- updated("x:2")
		s.listen <- updated("x:3")
		synctest.Wait()
		la.cancel()
		<-la.done
		synctest.Wait()
		if got := subscribing(s.HTTP); !slices.Contains(got, "-x:1") || slices.Contains(got, "-x:2") {
			t.Errorf("the server was told %q when one of two has left", got)
		}
		lb.cancel()
		<-lb.done
		synctest.Wait()
		got := subscribing(s.HTTP)
		slices.Sort(got)
		wantStrings(t, "the server was told", got, []string{"+x:1", "+x:2", "-x:1", "-x:2"})
		wantStrings(t, "one", a.notifications(), []string{agreedTo("x:1", "x:2"), told("x:1"), told("x:2")})
		wantStrings(t, "the other", b.notifications(), []string{agreedTo("x:2"), told("x:2")})
	})
}

// An update that the server sends before its answer to the subscription is delivered
// after the acknowledgement, and is not lost.
func TestUpdateBeforeTheSubscriptionIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		release := make(chan struct{})
		s.On["resources/subscribe"] = func(x *faultyserver.Exchange) {
			s.listen <- updated("x:1")
			<-release
			x.Result(`{}`)
		}
		ear := &recorder{}
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		launch(t, dialHTTP(t, s, client.Config{}), in(scope, watching(t, "x:1")), ear)
		synctest.Wait()
		wantStrings(t, "heard before the answer", ear.notifications(), nil)
		close(release)
		synctest.Wait()
		wantStrings(t, "heard", ear.notifications(), []string{agreedTo("x:1"), told("x:1")})
	})
}

// If a server refuses one resource, the others are not affected. A server without
// subscriptions gets no request.
func TestRefusedSubscriptions(t *testing.T) {
	for name, tt := range map[string]struct {
		capabilities string
		asked        []string
		want         string
	}{
		"one of two":       {subscribable, []string{"+x:1", "+x:2"}, agreedTo("x:2")},
		"no subscriptions": {`{"resources":{"listChanged":true}}`, nil, `subscriptions/acknowledged {"notifications":{}}`},
		"no resources":     {`{"tools":{}}`, nil, `subscriptions/acknowledged {"notifications":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSubscribable()
				s.Capabilities = tt.capabilities
				s.On["resources/subscribe"] = func(x *faultyserver.Exchange) {
					if uri, _ := x.Msg.Params.Text(mcp.FieldURI); uri == "x:1" {
						x.Error(-32002, "no such resource")
						return
					}
					x.Result(`{}`)
				}
				ear := &recorder{}
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				launch(t, dialHTTP(t, s, client.Config{}), in(scope, watching(t, "x:1", "x:2")), ear)
				synctest.Wait()
				wantStrings(t, "heard", ear.notifications(), []string{tt.want})
				got := subscribing(s.HTTP)
				slices.Sort(got)
				wantStrings(t, "asked", got, tt.asked)
			})
		})
	}
}

// A resource that is wanted again during its unsubscribe is subscribed to again, and
// that is the last request.
func TestSubscribeWhileUnsubscribing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		release := make(chan struct{})
		s.On["resources/unsubscribe"] = func(x *faultyserver.Exchange) {
			<-release
			x.Result(`{}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		first := launch(t, c, in(scope, watching(t, "x:1")), &recorder{})
		synctest.Wait()
		first.cancel()
		<-first.done
		synctest.Wait()
		ear := &recorder{}
		launch(t, c, in(scope, watching(t, "x:1")), ear)
		synctest.Wait()
		if got := ear.notifications(); len(got) > 0 {
			t.Errorf("heard %q before the server has agreed again", got)
		}
		close(release)
		synctest.Wait()
		wantStrings(t, "told", subscribing(s.HTTP), []string{"+x:1", "-x:1", "+x:1"})
		wantStrings(t, "heard", ear.notifications(), []string{agreedTo("x:1")})
	})
}

// If a resource is wanted and unwanted repeatedly while the server is slow, there is
// one request or none.
func TestUnwantedSubscriptionsAreNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		release := make(chan struct{})
		s.On["resources/subscribe"] = func(x *faultyserver.Exchange) {
			<-release
			x.Result(`{}`)
		}
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		uris := make([]string, 50)
		for i := range uris {
			uris[i] = fmt.Sprintf("x:%d", i)
		}
		l := launch(t, c, in(scope, watching(t, uris...)), &recorder{})
		synctest.Wait()
		l.cancel()
		<-l.done
		close(release)
		synctest.Wait()
		got := subscribing(s.HTTP)
		if n := len(got); n == 0 || n > 8 || n%2 != 0 {
			t.Errorf("the server was told %q, want the few that were under way, and each taken back", got)
		}
	})
}

// A lost session takes its subscriptions along: the next one subscribes again, and the
// resources count as updated. The lost session sends nothing more, even while it waits
// for answers to its calls.
func TestSubscriptionsOutliveTheirSession(t *testing.T) {
	for _, beside := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s := newSubscribable()
			lost := make(chan struct{})
			gets := 0
			s.On["GET"] = func(x *faultyserver.Exchange) {
				if gets++; gets == 1 {
					x.Begin()
					<-lost
					return
				}
				if x.R.Header.Get("Mcp-Session-Id") == faultyserver.SessionID {
					x.Status(http.StatusNotFound, "", "")
					return
				}
				s.serveListen(x)
			}
			s.On["tools/call"] = func(x *faultyserver.Exchange) { x.Hold() }
			ear := &recorder{}
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			c := dialHTTP(t, s, client.Config{})
			launch(t, c, in(scope, watching(t, "x:1")), ear)
			synctest.Wait()
			if beside {
				launch(t, c, in(scope, echo(t)), &recorder{})
				synctest.Wait()
			}
			close(lost)
			time.Sleep(time.Minute)
			wantStrings(t, "told", subscribing(s.HTTP), []string{"+x:1", "+x:1"})
			// Once for the gap between the sessions: the stream of the first never came
			// back.
			wantStrings(t, "heard", ear.notifications(), []string{agreedTo("x:1"), told("x:1")})
			s.listen <- updated("x:1")
			synctest.Wait()
			if got := ear.notifications(); len(got) != 3 {
				t.Errorf("heard %q, want the update of the new session too", got)
			}
		})
	}
}

// Listens without a scope have a session for each principal, because a server may send
// a session data of its principal. The session ends with the last of them.
func TestI22ListensOfPrincipalsAreSeparate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		c := dialHTTP(t, s, client.Config{})
		of := func(principal string) *running {
			req := watching(t, "x:1")
			req.Principal = principal
			l := launch(t, c, req, &recorder{})
			synctest.Wait()
			return l
		}
		ann, again, bob := of("ann"), of("ann"), of("bob")
		if n := s.Count("initialize"); n != 2 {
			t.Errorf("%d sessions for two principals", n)
		}
		wantStrings(t, "told", subscribing(s.HTTP), []string{"+x:1", "+x:1"})
		ann.cancel()
		<-ann.done
		time.Sleep(time.Second)
		if n := s.Count(http.MethodDelete); n != 0 {
			t.Errorf("%d sessions ended while both are used", n)
		}
		again.cancel()
		<-again.done
		time.Sleep(time.Second)
		if n := s.Count(http.MethodDelete); n != 1 {
			t.Errorf("%d sessions ended, want that of ann", n)
		}
		bob.cancel()
		<-bob.done
		time.Sleep(time.Second)
		of("ann")
		if n := s.Count("initialize"); n != 3 {
			t.Errorf("%d sessions, want a new one for ann", n)
		}
	})
}

// An update of a sub-resource is delivered. One that is recognizably no part of a
// subscribed resource is not.
func TestUpdatesOfSubResources(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		c := dialHTTP(t, s, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ear := &recorder{}
		launch(t, c, in(scope, watching(t, "x://a", "x://b/")), ear)
		<-s.open
		synctest.Wait()
		want := []string{agreedTo("x://a", "x://b/")}
		for uri, told := range map[string]bool{
			"x://a/1": true, "x://a?q": true, "x://a#f": true, "x://b/1": true, "x://b/1/2": true,
			"x://ab": false, "x://b": false, "x://": false, "y://a/1": false, "": false,
		} {
			s.listen <- updated(uri)
			synctest.Wait()
			if told {
				want = append(want, `resources/updated {"uri":"`+uri+`"}`)
			}
		}
		wantStrings(t, "heard", ear.notifications(), want)
	})
}

// A server that hangs is not waited for without end: the listen fails, and the
// subscription does not stay.
func TestUnansweredSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSubscribable()
		s.On["resources/subscribe"] = func(x *faultyserver.Exchange) { x.Hold() }
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		began := time.Now()
		_, err := within(t, dialHTTP(t, s, client.Config{Write: 3 * time.Second}), in(scope, watching(t, "x:1")), &recorder{})
		if _, ok := err.(*mcp.Fault); !ok { //nolint:errorlint // itself
			t.Errorf("error %v, want a fault", err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
