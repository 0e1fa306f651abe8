// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// broadcaster is a modern server with listens that the test controls, in the order in
// which they were opened.
type broadcaster struct {
	*faultyserver.HTTP

	refuse func(uris []string) bool // before the acknowledgement
	agree  func(uri string) bool

	mu   sync.Mutex
	open []*broadcast
}

type broadcast struct {
	x      *faultyserver.Exchange
	uris   []string
	news   chan string // updates
	end    chan struct{}
	closed bool // the client has closed it
}

func newBroadcaster() *broadcaster {
	b := &broadcaster{HTTP: &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}}
	b.On["subscriptions/listen"] = b.listen
	return b
}

func (b *broadcaster) listen(x *faultyserver.Exchange) {
	_, rest, _ := strings.Cut(string(x.Msg.Params.Bytes()), `"resourceSubscriptions":[`)
	list, _, _ := strings.Cut(rest, "]")
	st := &broadcast{x: x, news: make(chan string), end: make(chan struct{})}
	for uri := range strings.SplitSeq(list, ",") {
		st.uris = append(st.uris, strings.Trim(uri, `"`))
	}
	if b.refuse != nil && b.refuse(st.uris) {
		x.Error(mcp.CodeInvalidParams, "no")
		return
	}
	var agreed []string
	for _, uri := range st.uris {
		if b.agree == nil || b.agree(uri) {
			agreed = append(agreed, `"`+uri+`"`)
		}
	}
	b.add(st)
	x.Begin()
	st.send("subscriptions/acknowledged", `"notifications":{"resourceSubscriptions":[`+strings.Join(agreed, ",")+`]},`)
	for {
		select {
		case uri := <-st.news:
			st.send("resources/updated", `"uri":"`+uri+`",`)
		case <-x.R.Context().Done():
			b.finish(st)
			return
		case <-st.end:
			x.Abort()
		}
	}
}

func (b *broadcaster) finish(st *broadcast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st.closed = true
}

func (b *broadcaster) add(st *broadcast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, st)
}

func (st *broadcast) send(method, params string) {
	st.x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, method, params, st.x.Msg.ID))
}

func (st *broadcast) update(uri string) { st.news <- uri }

// listens returns the listens so far. Those that the client has closed have a minus
// sign.
func (b *broadcaster) listens() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, st := range b.open {
		text := strings.Join(st.uris, " ")
		if st.closed {
			text = "-" + text
		}
		all = append(all, text)
	}
	return all
}

func (b *broadcaster) at(i int) *broadcast {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[i]
}

// received returns what a listen was notified of, without the metadata.
func received(r *recorder) []string {
	var all []string
	for _, text := range r.notifications() {
		all = append(all, strings.NewReplacer(`,"_meta":{}`, "", `"_meta":{},`, "").Replace(text))
	}
	return all
}

// The listens of one scope share one stream. A wider stream is opened before the
// narrower one ends, and each listen receives its own resources. Listens without a
// scope have streams of their own.
func TestListensOfAScopeShareAStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		c := dialHTTP(t, b, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		ears := map[string]*recorder{}
		runs := map[string]*running{}
		for _, uri := range []string{"x:1", "x:2", "x:3"} {
			ears[uri] = &recorder{}
			runs[uri] = launch(t, c, in(scope, watching(t, uri)), ears[uri])
			synctest.Wait()
		}
		wantStrings(t, "streams", b.listens(), []string{"x:1", "x:1 x:2", "x:1 x:2 x:3"})
		time.Sleep(time.Second)
		wantStrings(t, "streams", b.listens(), []string{"-x:1", "-x:1 x:2", "x:1 x:2 x:3"})
		again := &recorder{}
		l := launch(t, c, in(scope, watching(t, "x:2")), again)
		own := &recorder{}
		launch(t, c, watching(t, "x:2"), own)
		wantStrings(t, "streams", b.listens()[2:], []string{"x:1 x:2 x:3", "x:2"})
		b.at(2).update("x:2")
		b.at(2).update("x:1/part")
		synctest.Wait()
		wantStrings(t, "x:1", received(ears["x:1"]), []string{agreedTo("x:1"), told("x:1/part")})
		wantStrings(t, "x:2", received(ears["x:2"]), []string{agreedTo("x:2"), told("x:2")})
		wantStrings(t, "x:2 again", received(again), []string{agreedTo("x:2"), told("x:2")})
		wantStrings(t, "x:3", received(ears["x:3"]), []string{agreedTo("x:3")})
		wantStrings(t, "own", received(own), []string{agreedTo("x:2")})

		// A subscription that no listen wants is ended, and the stream with the last
		// one. The others continue.
		l.cancel()
		wantStrings(t, "streams", b.listens()[2:], []string{"x:1 x:2 x:3", "x:2"})
		runs["x:1"].cancel()
		wantStrings(t, "streams", b.listens()[2:], []string{"x:1 x:2 x:3", "x:2", "x:2 x:3"})
		time.Sleep(time.Second)
		wantStrings(t, "streams", b.listens()[2:], []string{"-x:1 x:2 x:3", "x:2", "x:2 x:3"})
		runs["x:2"].cancel()
		runs["x:3"].cancel()
		<-runs["x:2"].done
		<-runs["x:3"].done
		time.Sleep(time.Second)
		for _, st := range b.listens()[4:] {
			if st[0] != '-' {
				t.Errorf("the stream %s is open, and nobody wants it", st)
			}
		}
		before := len(b.listens())
		launch(t, c, in(scope, watching(t, "x:9")), &recorder{})
		wantStrings(t, "streams", b.listens()[before:], []string{"x:9"})
	})
}

// Notifications during the opening of a wider stream are not lost, on either stream.
func TestNothingIsLostWhileAStreamIsWidened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		c := dialHTTP(t, b, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		one, two := &recorder{}, &recorder{}
		launch(t, c, in(scope, watching(t, "x:1")), one)
		synctest.Wait()
		hold := make(chan struct{})
		plain := b.On["subscriptions/listen"]
		b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			<-hold
			plain(x)
		}
		launch(t, c, in(scope, watching(t, "x:2")), two)
		synctest.Wait()
		b.at(0).update("x:1")
		synctest.Wait()
		wantStrings(t, "one", received(one), []string{agreedTo("x:1"), told("x:1")})
		wantStrings(t, "two", received(two), nil)
		close(hold)
		wantStrings(t, "streams", b.listens(), []string{"x:1", "x:1 x:2"})
		b.at(1).update("x:1")
		b.at(1).update("x:2")
		synctest.Wait()
		wantStrings(t, "one", received(one), []string{agreedTo("x:1"), told("x:1"), told("x:1")})
		wantStrings(t, "two", received(two), []string{agreedTo("x:2"), told("x:2")})
	})
}

// If a server refuses the wider stream, only the new listen ends.
func TestRefusedListenDoesNotAffectOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		b.refuse = func(uris []string) bool { return slices.Contains(uris, "x:bad") }
		b.agree = func(uri string) bool { return uri != "x:no" }
		c := dialHTTP(t, b, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		one, no := &recorder{}, &recorder{}
		launch(t, c, in(scope, watching(t, "x:1")), one)
		synctest.Wait()
		_, err := within(t, c, in(scope, watching(t, "x:bad")), &recorder{})
		wantError(t, err, mcp.CodeInvalidParams)
		launch(t, c, in(scope, watching(t, "x:no")), no)
		time.Sleep(time.Minute)
		wantStrings(t, "no", received(no), []string{`subscriptions/acknowledged {"notifications":{}}`})
		wantStrings(t, "streams", b.listens(), []string{"-x:1", "x:1 x:no"})
		b.at(1).update("x:1")
		b.at(1).update("x:no")
		synctest.Wait()
		wantStrings(t, "one", received(one), []string{agreedTo("x:1"), told("x:1")})
		wantStrings(t, "no", received(no)[1:], nil)
	})
}

// After a break the stream is reopened for all listens at once, and what each was
// promised is reported as updated. A server that stays unavailable ends all.
func TestSharedStreamIsReopened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroadcaster()
		b.agree = func(uri string) bool { return uri != "x:no" }
		c := dialHTTP(t, b, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		var ears []*recorder
		var runs []*running
		for _, uri := range []string{"x:1", "x:2", "x:no"} {
			ears = append(ears, &recorder{})
			runs = append(runs, launch(t, c, in(scope, watching(t, uri)), ears[len(ears)-1]))
			synctest.Wait()
		}
		close(b.at(2).end)
		time.Sleep(time.Minute)
		wantStrings(t, "streams", b.listens()[2:], []string{"x:1 x:2 x:no", "x:1 x:2 x:no"})
		wantStrings(t, "x:1", received(ears[0]), []string{agreedTo("x:1"), told("x:1")})
		wantStrings(t, "x:2", received(ears[1]), []string{agreedTo("x:2"), told("x:2")})
		wantStrings(t, "x:no", received(ears[2])[1:], nil)

		b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) { x.Status(http.StatusBadGateway, "text/html", "<html>") }
		close(b.at(3).end)
		for _, r := range runs {
			<-r.done
			wantFault(t, r.err, mcp.CodeBackendFailed, mcp.Unknown, "502")
		}
	})
}

// Closing the client ends the stream and all listens, even while the stream is opening.
func TestSharedStreamEndsWithTheClient(t *testing.T) {
	for _, silent := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			b := newBroadcaster()
			if silent {
				b.On["subscriptions/listen"] = func(x *faultyserver.Exchange) { x.Hold() }
			}
			c := dialHTTP(t, b, client.Config{})
			scope := mcp.NewScope("s", nil)
			defer scope.End()
			one := launch(t, c, in(scope, watching(t, "x:1")), &recorder{})
			two := launch(t, c, in(scope, watching(t, "x:2")), &recorder{})
			synctest.Wait()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-one.done
			<-two.done
			if one.err == nil || two.err == nil {
				t.Errorf("ended with %v and %v, want errors", one.err, two.err)
			}
		})
	}
}
