// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// subscribe subscribes to a resource, or ends that. While it is not answered nobody
// knows whether the client is subscribed, and where it never is, nobody ever will.
func (c *legacyClient) subscribe(method string, t thing) {
	c.w.deed(method)
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
			// What was sent may still arrive, and is not to overtake what is sent next.
			_ = pause(c.w.ctx, 20*time.Second)
		case method == "resources/subscribe":
			c.isSubscribed(t, session)
		}
	})
}

func (c *legacyClient) isSubscribed(t thing, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs[t] = session
	c.ever[t] = true
}

// subscribeIn reports whether the server has agreed.
func (c *legacyClient) subscribeIn(session, id, method string, t thing) (ok bool) {
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
