// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// list lists the tools, and reports whether it succeeded: a session is notified of changes
// of the lists that it has.
func (c *legacyClient) list(session string) bool {
	ctx, cancel := context.WithTimeout(c.w.ctx, 40*time.Second)
	defer cancel()
	res, err := c.send(ctx, nil, http.MethodPost, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`, c.headers(session))
	if err != nil {
		return false
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	c.w.note("%s: tools/list < %d %s %v", c.name, res.StatusCode, short(body), err)
	return err == nil && res.StatusCode == http.StatusOK && bytes.Contains(body, []byte(`"result"`))
}

// listOnce lists the tools of a session that has not, until it succeeds or the session
// changes.
func (c *legacyClient) listOnce() {
	for range 8 {
		session := c.ensure()
		if session == "" || c.hasListed(session) {
			return
		}
		if c.list(session) {
			c.mu.Lock()
			c.listed = session
			c.mu.Unlock()
			return
		}
		_ = pause(c.w.ctx, 2*time.Second)
	}
}

func (c *legacyClient) hasListed(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed == session
}

// subscribe subscribes to a resource, or unsubscribes. Without an answer it is unknown
// whether the client is subscribed.
func (c *legacyClient) subscribe(method string, t topic) {
	c.w.countAction(method)
	c.n++
	id := fmt.Sprintf("%d", c.n)
	c.spawn(func() {
		select {
		case <-c.subscribing:
		case <-c.w.ctx.Done():
			return
		}
		defer func() { c.subscribing <- struct{}{} }()
		session := c.ensure()
		if session == "" {
			return
		}
		c.isSubscribed(t, "")
		switch ok := c.subscribeIn(session, id, method, t); {
		case !ok:
			// What was sent may still arrive, and must not overtake what is sent next.
			_ = pause(c.w.ctx, 20*time.Second)
		case method == "resources/subscribe":
			c.isSubscribed(t, session)
		}
	})
}

func (c *legacyClient) isSubscribed(t topic, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[t] = session
	c.ever[t] = true
}

// subscribeIn reports whether the server has agreed.
func (c *legacyClient) subscribeIn(session, id, method string, t topic) (ok bool) {
	ctx, cancel := context.WithTimeout(c.w.ctx, 40*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"uri":%q}}`, id, method, t.uri())
	res, err := c.send(ctx, nil, http.MethodPost, body, c.headers(session))
	if err != nil {
		return false
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		if res.StatusCode == http.StatusNotFound {
			c.forget(session)
		}
		return false
	}
	c.follow(res, "", func(m *mcp.Message) {
		c.w.note("%s: %s < %s", c.name, body, short(m.Raw))
		switch {
		case m.ID.String() != id || m.Kind == mcp.KindRequest || m.Kind == mcp.KindNotification:
			c.w.wrong("%s: %s brought %s", c.name, body, short(m.Raw))
		case m.Kind == mcp.KindResult:
			ok = true
		}
	})
	return ok
}
