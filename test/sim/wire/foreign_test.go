// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// tokens are those of the two principals, if the gateway authenticates clients.
var tokens = [2]string{"the-token-of-the-first-one-of-two", "the-token-of-the-other-one-of-two"}

// tokenOf returns the token of the i-th user.
func (w *world) tokenOf(i int) string {
	if !w.guarded {
		return ""
	}
	return tokens[i%2]
}

// principalOf is the authentication of a bridge.
func principalOf(r *http.Request) (*mcp.Identity, error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for i, t := range tokens {
		if t == token {
			return &mcp.Identity{Principal: fmt.Sprintf("principal%d", i)}, nil
		}
	}
	return nil, errors.New("nobody")
}

// auth is the authentication of the product.
func (w *world) auth() (a config.Auth) {
	if !w.guarded {
		return a
	}
	for i, t := range tokens {
		a.Tokens = append(a.Tokens, config.Token{Principal: fmt.Sprintf("principal%d", i), Value: config.NewSecret(t)})
	}
	return a
}

// others returns the users of a kind that belong to another principal.
func others[T user](w *world, isOther func(T) bool) []T {
	var all []T
	for _, u := range w.users {
		if t, ok := u.(T); ok && isOther(t) {
			all = append(all, t)
		}
	}
	return all
}

// trespass uses a session of a client of another principal, or an event of its streams.
// Both must be unknown, and the other client must not notice.
func (c *legacyClient) trespass(s *choice.Source) {
	of, how := pick(s, others(c.w, func(o *legacyClient) bool { return o.token != c.token })), s.Intn(4)
	if of == nil {
		return
	}
	c.w.countAction("legacy trespass")
	session, event := of.belongings()
	call, to := c.foreignCall(), c.w.homeOf(session)
	c.spawn(func() {
		switch {
		case how == 3 && event != "":
			own := c.ensure()
			h := c.headers(own)
			h.Set("Last-Event-Id", event)
			if own == "" {
				return
			}
			c.intrude(c.w.homeOf(own), foreign, http.MethodGet, "", h, http.StatusBadRequest, http.StatusNotFound)
		case session == "":
			return
		case how == 0:
			c.intrude(to, foreign, http.MethodPost, call, c.headers(session), http.StatusNotFound)
		case how == 1:
			c.intrude(to, foreign, http.MethodGet, "", c.headers(session), http.StatusNotFound)
		default:
			c.intrude(to, foreign, http.MethodDelete, "", c.headers(session), http.StatusNotFound)
		}
	})
}

// belongings returns a session and an event of the client for others to try.
func (c *legacyClient) belongings() (session, event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.event
}

func (c *legacyClient) saw(event string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if event != "" {
		c.event = event
	}
}

// foreignMark is in the marks of calls that must not be executed.
const foreignMark = ".foreign"

// foreignCall returns a call in a foreign session.
func (c *legacyClient) foreignCall() string {
	c.n++
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"mark":"%s%s%d","do":""}}}`,
		c.n, c.w.tool, c.name, foreignMark, c.n)
}

// Why a session, event or state must not be used.
const (
	foreign   = "is another's"
	elsewhere = "lives elsewhere"
)

// intrude sends a request that must be refused with one of the statuses, and reports
// whether it was, unless the server did not process it.
func (c *legacyClient) intrude(to *gateway, what, method, body string, h http.Header, wanted ...int) bool {
	res, err := c.raw.send(c.w.ctx, to, nil, method, body, h)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	status := res.StatusCode
	c.w.note("%s: %s in what %s: %d", c.name, method, what, status)
	if slices.Contains(wanted, status) {
		return true
	}
	if !isBusy(status) {
		c.w.wrong("%s: %s in what %s: %d, want %v", c.name, method, what, status, wanted)
	}
	return false
}

// trespass retries with the state of another principal. A state that was used up would show
// at its owner.
func (c *modernClient) trespass(s *choice.Source) {
	of := pick(s, others(c.w, func(o *modernClient) bool { return o.token != c.token }))
	if of == nil {
		return
	}
	kept := of.keeps()
	if !strings.Contains(kept, "requestState") {
		return
	}
	c.w.countAction("modern trespass")
	to := c.w.anyGateway()
	c.spawn(func() {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"foreign","method":"tools/call","params":{%s,"_meta":{%s}}}`, kept, modernMeta)
		res, err := c.send(c.w.ctx, to, nil, http.MethodPost, body, modernHeaders("tools/call", c.w.tool))
		if err != nil {
			return
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		c.w.note("%s: with the state of another: %d %s", c.name, res.StatusCode, short(said))
		unknown := strings.Contains(string(said), "requestState is unknown")
		if err == nil && !unknown && !isBusy(res.StatusCode) {
			c.w.wrong("%s: the state of another was not unknown: %d %s", c.name, res.StatusCode, short(said))
		}
	})
}

func (c *modernClient) keeps() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}
