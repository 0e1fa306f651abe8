// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// hosts are the names of the replicas. A client with several connections distinguishes them
// by these, as by the addresses behind one name.
var hosts = [2]string{"localhost", "127.0.0.1"}

// stateKey seals request states if several gateways must open them.
var stateKey = []byte("a key that both replicas have been given")

// stateOf returns the product's setting for the keys of a bridge.
func stateOf(keys [][]byte) (s config.State) {
	for _, key := range keys {
		s.Keys = append(s.Keys, config.NewSecret(string(key)))
	}
	return s
}

// transport returns a transport that connects to the gateway with the host's name.
func (w *world) transport(foreign bool) transport {
	return newTransport(foreign, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return w.gateways[slices.IndexFunc(w.gateways, func(g *gateway) bool { return strings.HasPrefix(addr, g.host) })].front.dial(ctx)
	})
}

// replicate makes that many gateways, which differ only in their hosts.
func (w *world) replicate(one gateway, replicas int) {
	if replicas > 1 {
		one.cfg.StateKeys = [][]byte{stateKey}
	}
	for i := range replicas {
		g, of := one, []string{"", "other "}[i]
		g.host = hosts[i]
		g.front, g.back, g.pipe = newLink(w, of+"front"), newLink(w, of+"back"), newLink(w, of+"pipe")
		g.back.watched = true
		w.gateways = append(w.gateways, &g)
	}
}

// anyLink chooses the link on which a fault happens, among those in use.
func (w *world) anyLink() *link {
	g := w.anyGateway()
	some := []*link{g.front, g.back}
	if slices.ContainsFunc(w.users, func(u user) bool { return isPiped(u, g) }) {
		some = append(some, g.pipe)
	}
	return some[w.choose.Intn(len(some))]
}

// isPiped reports whether the gateway is a process of the user.
func isPiped(u user, g *gateway) bool {
	c, ok := u.(*libraryClient)
	return ok && c.over == g.pipe
}

// anyGateway chooses a gateway. With only one, no choice is made.
func (w *world) anyGateway() *gateway { return w.gateways[w.choose.Intn(len(w.gateways))] }

// links returns all links of the world.
func (w *world) links() []*link {
	var all []*link
	for _, g := range w.gateways {
		all = append(all, g.links()...)
	}
	return all
}

// opened records where a session is, and homeOf returns it. It returns nil for a session
// that was never opened.
func (w *world) opened(session string, at *gateway) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.homes[session] = at
}

func (w *world) homeOf(session string) *gateway {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.homes[session]
}

// other returns the other replica, or nil.
func (w *world) other(than *gateway) *gateway {
	for _, g := range w.gateways {
		if g != than {
			return g
		}
	}
	return nil
}

// attempt is an attempt of a request at a gateway.
type attempt struct {
	to   *gateway
	life int   // the gateway's restart count at that time
	over *link // that it was sent on
}

// attempt records where an attempt of the request is sent.
func (r *record) attempt(g *gateway, over *link) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	// A request that is repeated must be known to the gateway that knew it.
	if n := len(r.attempts); n == 0 || r.attempts[n-1].to != g {
		r.attempts = append(r.attempts, attempt{g, g.life, over})
	}
}

// sentTo reports whether one of the request's attempts satisfies is.
func (r *record) sentTo(is func(attempt) bool) bool { return slices.ContainsFunc(r.attempts, is) }

func isAnother(v attempt) bool   { return v.life != v.to.life }
func wasShut(v attempt) bool     { return v.to.shut > 0 }
func hasCrashed(v attempt) bool  { return v.to.crashed > 0 }
func lostBackend(v attempt) bool { return v.to.back.harmed > 0 }
func slowBackend(v attempt) bool { return v.to.back.slow }
func lostClients(v attempt) bool { return v.over.harmed > 0 }
func byPipe(v attempt) bool      { return v.over == v.to.pipe }

// lostPipe reports a broken pipe, which is the end of its client.
func lostPipe(v attempt) bool { return byPipe(v) && lostClients(v) }

// isLostBehindLocked reports whether the connection has broken on which the request was
// last sent to the backend.
func (r *record) isLostBehindLocked() bool {
	c := r.attempts[len(r.attempts)-1].to.back.carrierOf(r.mark)
	return c != nil && c.broken.Load()
}

// isReadSlowlyLocked reports whether the connection on which the request was last sent to a
// gateway is read more slowly than the gateway's write timeout allows.
func (r *record) isReadSlowlyLocked() bool {
	c := r.attempts[len(r.attempts)-1].over.carrierOf(r.mark)
	return c != nil && c.isSlow.Load()
}

// goesTo returns the gateway for a round of the request.
func (r *record) goesTo(round int) *gateway {
	return r.w.gateways[(r.route>>round&1)%len(r.w.gateways)]
}

// insists reports whether the request is sent to the right replica after the wrong one has
// refused it.
func (r *record) insists(round int) bool { return r.route>>(rounds+round)&1 == 0 }

// ownState is the beginning of a state of a request that the gateway itself has parked.
const ownState = `"requestState":"sbp1.`

// isParked reports whether a retry's state names a parked request, here or in a backend
// process of the gateway. Any other state is self-contained, and any replica accepts it.
func (r *record) isParked(input string) bool {
	b := r.w.backend
	return strings.Contains(input, ownState) || b.piped && !b.legacy && strings.Contains(r.script, "a")
}

// stray retries at a replica where the request is not parked. It must refuse the retry with
// a message, and the replica that has parked it must not notice.
func (c *modernClient) stray(ctx context.Context, r *record, at *gateway, input string) {
	c.w.countAction("modern stray")
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"astray","method":"tools/call","params":{%s%s,"_meta":{%s}}}`, r.callParams(), input, modernMeta)
	said, status := c.aside(ctx, at, body, r.mark)
	if status != 0 && !strings.Contains(said, "requestState is unknown") && !isBusy(status) && !at.couldNotAsk(input, said) {
		c.w.wrong("%s: a state of the other replica was not unknown: %d %s", c.name, status, said)
	}
}

// couldNotAsk reports whether a gateway reported that the backend process that knows the
// state was unavailable. For a request that the gateway itself has parked there is no such
// excuse.
func (g *gateway) couldNotAsk(input, said string) bool {
	if strings.Contains(input, ownState) || !strings.Contains(said, `"source":"gateway"`) {
		return false
	}
	g.back.mu.Lock()
	defer g.back.mu.Unlock()
	return strings.Contains(said, `"outcome":"not_dispatched"`) || g.back.harmed > 0
}

// isBusy reports whether a status means that the request was not processed.
func isBusy(status int) bool {
	return status/100 == 5 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// wander sends a session's request to the other replica, as a load balancer without session
// affinity does. There the session must be unknown, and it must not be affected where it
// exists. The client begins anew, or continues.
func (c *legacyClient) wander(s *choice.Source) {
	how, moves := s.Intn(4), s.Intn(2) == 1
	session, event := c.belongings()
	to := c.w.other(c.w.homeOf(session))
	if session == "" || to == nil {
		return
	}
	c.w.countAction("legacy wander")
	call := c.foreignCall()
	h := c.headers(session)
	method, body := http.MethodPost, call
	switch {
	case how == 1:
		method, body = http.MethodGet, ""
	case how == 2:
		method, body = http.MethodDelete, ""
	case how == 3 && event != "":
		method, body = http.MethodGet, ""
		h.Set("Last-Event-Id", event)
	}
	c.spawn(func() {
		if c.intrude(to, elsewhere, method, body, h, http.StatusNotFound) && moves {
			c.move(session, to)
		}
	})
}

// move moves the client to another gateway. Requests in flight in its old session continue
// there.
func (c *legacyClient) move(session string, to *gateway) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.session, c.home = "", to
	}
}
