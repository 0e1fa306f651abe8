// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// readURIs reads one URI, or a list of them.
func readURIs(arg string) []string {
	var uris []string
	if json.Unmarshal([]byte(arg), &uris) == nil {
		return uris
	}
	var uri string
	if json.Unmarshal([]byte(arg), &uri) != nil {
		return nil
	}
	return []string{uri}
}

// isListen reports whether the exchange is a stream of changes.
func (x *exchange) isListen() bool { return x.label == listenLabel || len(x.watch) > 0 }

// watch subscribes to resources: in the legacy era to one after the other, with the
// updates on the standalone stream, and in the modern era by one listen.
func (c *transcriptClient) watch(arg string) bool {
	uris := readURIs(arg)
	if len(uris) == 0 || !c.in.modern() && !c.standalone(true) {
		return false
	}
	if c.in.modern() {
		raw, err := json.Marshal(map[string]any{"notifications": map[string]any{"resourceSubscriptions": uris}})
		if err != nil {
			return false
		}
		return c.sendWatch("watch "+arg, "subscriptions/listen", string(raw), uris)
	}
	for _, uri := range uris {
		if !c.sendWatch("watch "+uri, "resources/subscribe", `{"uri":`+string(quoted(uri))+`}`, []string{uri}) {
			return false
		}
	}
	return true
}

func (c *transcriptClient) sendWatch(label, method, params string, uris []string) bool {
	p, err := parseObject([]byte(params))
	if err != nil {
		return false
	}
	c.lastID++
	c.send(&exchange{label: label, id: fmt.Sprintf("\"watch %d\"", c.lastID), method: method, params: p, watch: uris})
	return true
}

// unwatch unsubscribes from the resources of a line "watch".
func (c *transcriptClient) unwatch(arg string) bool {
	uris := readURIs(arg)
	if c.in.modern() {
		c.forget(uris)
		return c.cancel(c.open("watch " + arg))
	}
	for _, uri := range uris {
		if answer := c.roundTrip("resources/unsubscribe", `{"uri":`+string(quoted(uri))+`}`); string(answer.get("result")) != "{}" {
			c.w.t.Fatalf("resources/unsubscribe: %s", answer)
		}
	}
	c.forget(uris)
	return len(uris) > 0
}

// forget makes an update of the resources a breach from now on.
func (c *transcriptClient) forget(uris []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uri := range uris {
		if i := slices.Index(c.subscribed, uri); i >= 0 {
			c.subscribed = slices.Delete(c.subscribed, i, i+1)
		}
	}
}

// standalone opens the standalone stream of a legacy client, unless it is open. Quietly
// is for the updates of resources alone: changes of lists are not shown.
func (c *transcriptClient) standalone(quietly bool) bool {
	isOpen := c.quietly || quietly && c.listening
	c.quietly = quietly
	return isOpen || c.wire.listen()
}

// hangUp ends the standalone stream.
func (c *transcriptClient) hangUp() bool {
	c.quietly = false
	return c.wire.unlisten()
}

// updatedLocked receives an update, which must be of a subscribed resource, or of a
// part of one. In the modern era it must arrive on the listen with the subscription.
func (c *transcriptClient) updatedLocked(x *exchange, params object) {
	uri, own := params.text("uri"), c.subscribed
	if c.in.modern() {
		own = x.watch
	}
	if !slices.ContainsFunc(own, func(w string) bool { return strings.HasPrefix(uri, w) }) {
		c.breach(x, "an update of %s, which is not subscribed to", uri)
	}
	c.show(uri, strings.TrimSpace("updated "+strings.TrimSuffix(params.without("uri").String(), "{}")))
}

// watchAgreedLocked receives the acknowledgement of a modern listen for resources.
func (c *transcriptClient) watchAgreedLocked(x *exchange, params object) {
	var said struct {
		Notifications map[string][]string `json:"notifications"`
	}
	if err := json.Unmarshal([]byte(params.String()), &said); err != nil || x.promised {
		c.breach(x, "acknowledged %s: %v", params, err)
	}
	x.promised = true
	for _, uri := range x.watch {
		if x.isFollow() {
			c.showFollowLocked(uri, slices.Contains(said.Notifications["taskIds"], uri))
			continue
		}
		c.showWatchLocked(uri, slices.Contains(said.Notifications["resourceSubscriptions"], uri))
	}
}

func (c *transcriptClient) showWatchLocked(uri string, agreed bool) {
	if !agreed {
		c.show(uri, "not agreed")
		return
	}
	c.subscribed = append(c.subscribed, uri)
	c.show(uri, "agreed")
}

// watchAnsweredLocked receives the response to a legacy subscription, or the end of a
// modern one.
func (c *transcriptClient) watchAnsweredLocked(x *exchange, m object) {
	e, err := parseObject(m.get("error"))
	switch {
	case c.in.modern() && err != nil:
		return
	case err != nil:
		if string(m.get("result")) != "{}" {
			c.breach(x, "resources/subscribe: %s", m)
		}
		c.showWatchLocked(x.watch[0], true)
	case !c.in.modern() && string(e.get("code")) == "-32002":
		c.showWatchLocked(x.watch[0], false)
	default:
		c.show(x.watch[0], "error "+string(e.get("code"))+" "+string(e.get("message")))
	}
}

// watcher is one listen of a backend.
type watcher struct {
	ch    chan notice
	uris  []string // the agreed ones
	tasks []string // likewise
	user  string   // of the sender
}

// notice is one notification.
type notice struct{ method, params string }

// update notifies the listens for a resource, or for another one that contains it.
func (b *backend) update(uri, of string) bool {
	for _, listener := range b.hearers(of) {
		listener.ch <- notice{"notifications/resources/updated", `{"uri":` + uri + `}`}
	}
	return true
}

func (b *backend) hearers(of string) []*watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*watcher
	for listener := range b.listens {
		if slices.Contains(listener.uris, of) {
			all = append(all, listener)
		}
	}
	return all
}

// agree starts a listen, with the resources of its filter that the backend notifies of.
func (b *backend) agree(life *instance, req *mcp.Request) *watcher {
	var want struct {
		URIs    []string `json:"resourceSubscriptions"`
		TaskIDs []string `json:"taskIds"`
	}
	_ = json.Unmarshal(req.Params.Raw(mcp.FieldNotifications), &want) // our own server has checked it
	listener := &watcher{ch: make(chan notice, 64), user: req.Principal}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, uri := range want.URIs {
		if b.unwatched || slices.Contains(b.refused, uri) {
			continue
		}
		listener.uris = append(listener.uris, uri)
		if b.watchers[uri]++; b.watchers[uri] == 1 {
			b.show(life, uri, "subscribed")
		}
	}
	for _, id := range want.TaskIDs {
		if _, ok := b.tasks[id]; ok {
			listener.tasks = append(listener.tasks, id)
		}
	}
	b.listens[listener] = true
	return listener
}

func (b *backend) hangUp(life *instance, listener *watcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listens, listener)
	for _, uri := range listener.uris {
		if b.watchers[uri]--; b.watchers[uri] == 0 {
			b.show(life, uri, "unsubscribed")
		}
	}
}

// listen sends notifications until the client ends it.
func (b *backend) listen(ctx context.Context, life *instance, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	listener := b.agree(life, req)
	defer b.hangUp(life, listener)
	note := func(method, params string) error {
		n, err := mcp.NewNotification(method, []byte(params))
		if err != nil {
			return err
		}
		return caller.Notify(ctx, n)
	}
	agreed := object{}.with("toolsListChanged", "true").with("promptsListChanged", "true").with("resourcesListChanged", "true")
	if raw, err := json.Marshal(listener.uris); err == nil && len(listener.uris) > 0 {
		agreed = agreed.with("resourceSubscriptions", string(raw))
	}
	if raw, err := json.Marshal(listener.tasks); err == nil && len(listener.tasks) > 0 {
		agreed = agreed.with("taskIds", string(raw))
	}
	err := note("notifications/subscriptions/acknowledged", `{"notifications":`+agreed.String()+`}`)
	for err == nil {
		select {
		case h := <-listener.ch:
			err = note(h.method, h.params)
		case <-ctx.Done():
			return mcp.NewResult([]byte("{}"))
		}
	}
	return nil, err
}
