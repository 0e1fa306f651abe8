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

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// tokens are those of the two principals, where the gateway tells them apart.
var tokens = [2]string{"the-token-of-the-first-one-of-two", "the-token-of-the-other-one-of-two"}

// tokenOf returns the token of the i-th user.
func (w *world) tokenOf(i int) string {
	if !w.guarded {
		return ""
	}
	return tokens[i%2]
}

// who is how a bridge tells its clients apart.
func who(r *http.Request) (string, error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for i, t := range tokens {
		if t == token {
			return fmt.Sprintf("principal%d", i), nil
		}
	}
	return "", errors.New("nobody")
}

// auth is how the product does.
func (w *world) auth() (a signalbox.Auth) {
	if !w.guarded {
		return a
	}
	for i, t := range tokens {
		a.Tokens = append(a.Tokens, signalbox.Token{Principal: fmt.Sprintf("principal%d", i), Value: signalbox.NewSecret(t)})
	}
	return a
}

// others returns the users of a kind that are of another principal.
func others[T user](w *world, isOther func(T) bool) []T {
	var all []T
	for _, u := range w.users {
		if t, ok := u.(T); ok && isOther(t) {
			all = append(all, t)
		}
	}
	return all
}

// trespass uses what belongs to a client of another principal: its session, or an
// event of its streams. Both have to be as unknown as what was never there, and
// whoever they belong to must not notice.
func (c *legacyClient) trespass(s *choice.Source) {
	of, how := pick(s, others(c.w, func(o *legacyClient) bool { return o.token != c.token })), s.Intn(4)
	if of == nil {
		return
	}
	c.w.deed("legacy trespass")
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

// belongings returns what a client has that others may try.
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

// foreignMark is in the marks of calls that nobody may execute.
const foreignMark = ".foreign"

// foreignCall is a call in a session in which it must not be.
func (c *legacyClient) foreignCall() string {
	c.n++
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"mark":"%s%s%d","do":""}}}`,
		c.n, c.w.tool, c.name, foreignMark, c.n)
}

// What nobody may use who is not who and where it belongs.
const (
	foreign   = "is another's"
	elsewhere = "lives elsewhere"
)

// intrude sends what has to be refused with one of the statuses, unless the server
// does not look at it at all, and reports whether it was.
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

// trespass comes back with what another principal was asked for. That it would
// have been taken from whom it belongs to must not be seen.
func (c *modernClient) trespass(s *choice.Source) {
	of := pick(s, others(c.w, func(o *modernClient) bool { return o.token != c.token }))
	if of == nil {
		return
	}
	kept := of.keeps()
	if !strings.Contains(kept, "requestState") {
		return
	}
	c.w.deed("modern trespass")
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
