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

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/test/sim/choice"
)

// hosts are the names of the replicas. A client that has several connections tells
// them apart by these, as by the addresses behind one name.
var hosts = [2]string{"localhost", "127.0.0.1"}

// stateKey seals what clients keep, where there is more than one who has to open it.
var stateKey = []byte("a key that both replicas have been given")

// stateOf is the setting of the product for what a bridge is given.
func stateOf(keys [][]byte) (s signalbox.State) {
	for _, key := range keys {
		s.Keys = append(s.Keys, signalbox.NewSecret(string(key)))
	}
	return s
}

// transport returns a transport whose connections lead to the gateway that has the
// host.
func (w *world) transport(foreign bool) transport {
	return newTransport(foreign, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return w.gateways[slices.IndexFunc(w.gateways, func(g *gateway) bool { return strings.HasPrefix(addr, g.host) })].front.dial(ctx)
	})
}

// replicate makes so many gateways that differ in nothing but where they stand.
func (w *world) replicate(one gateway, replicas int) {
	if replicas > 1 {
		one.cfg.StateKeys = [][]byte{stateKey}
	}
	for i := range replicas {
		g, of := one, []string{"", "other "}[i]
		g.host = hosts[i]
		g.front, g.back, g.pipe = newLine(w, of+"front"), newLine(w, of+"back"), newLine(w, of+"pipe")
		w.gateways = append(w.gateways, &g)
	}
}

// anyLine chooses the line on which something breaks, among those that somebody has.
func (w *world) anyLine() *line {
	g := w.anyGateway()
	some := []*line{g.front, g.back}
	if slices.ContainsFunc(w.users, func(u user) bool { return isPiped(u, g) }) {
		some = append(some, g.pipe)
	}
	return some[w.choose.Intn(len(some))]
}

// isPiped reports whether the gateway is a process of the user's.
func isPiped(u user, g *gateway) bool {
	c, ok := u.(*ownClient)
	return ok && c.over == g.pipe
}

// anyGateway chooses one. Where there is but one, nothing is chosen.
func (w *world) anyGateway() *gateway { return w.gateways[w.choose.Intn(len(w.gateways))] }

// lines are all of the world.
func (w *world) lines() []*line {
	var all []*line
	for _, g := range w.gateways {
		all = append(all, g.lines()...)
	}
	return all
}

// opened notes where a session is, and homeOf finds it. Nothing is known of one that
// was never opened.
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

// other returns the other replica, nil where there is none.
func (w *world) other(than *gateway) *gateway {
	for _, g := range w.gateways {
		if g != than {
			return g
		}
	}
	return nil
}

// visit is that a request came to a gateway.
type visit struct {
	to   *gateway
	life int   // of the gateway, at that time
	over *line // on which it came
}

// visit notes where an attempt of the request goes.
func (r *record) visit(g *gateway, over *line) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	// A request that comes again is to be known by whom it was known to.
	if n := len(r.visits); n == 0 || r.visits[n-1].to != g {
		r.visits = append(r.visits, visit{g, g.life, over})
	}
}

// cameTo reports whether one of the gateways that the request came to is such.
func (r *record) cameTo(is func(visit) bool) bool { return slices.ContainsFunc(r.visits, is) }

func isAnother(v visit) bool   { return v.life != v.to.life }
func wasShut(v visit) bool     { return v.to.shut > 0 }
func hasCrashed(v visit) bool  { return v.to.crashed > 0 }
func lostBackend(v visit) bool { return v.to.back.harmed > 0 }
func slowBackend(v visit) bool { return v.to.back.slow }
func lostClients(v visit) bool { return v.over.harmed > 0 }
func byPipe(v visit) bool      { return v.over == v.to.pipe }

// lostPipe: the end of a pipe is the end of its client.
func lostPipe(v visit) bool { return byPipe(v) && lostClients(v) }

// isLostBehindLocked reports whether the connection has broken on which the request has
// left for the backend last.
func (r *record) isLostBehindLocked() bool {
	c := r.visits[len(r.visits)-1].to.back.carrierOf(r.mark)
	return c != nil && c.broken.Load()
}

// goesTo returns the gateway for a round of the request.
func (r *record) goesTo(round int) *gateway {
	return r.w.gateways[(r.route>>round&1)%len(r.w.gateways)]
}

// insists reports whether the request, once it was turned away at the wrong replica,
// goes to the right one.
func (r *record) insists(round int) bool { return r.route>>(rounds+round)&1 == 0 }

// ownState begins what names a request that the gateway itself has parked.
const ownState = `"requestState":"sbp1.`

// isParked reports whether what a request comes back with names one that is parked,
// here or in a process of the backend that is the gateway's own. Any other state holds
// everything, and can be taken back by anybody.
func (r *record) isParked(input string) bool {
	b := r.w.backend
	return strings.Contains(input, ownState) || b.piped && !b.legacy && strings.Contains(r.script, "a")
}

// stray comes back to a replica where the request is not parked. That has to turn it
// away in words, and whoever has parked it must not notice.
func (c *modernClient) stray(ctx context.Context, r *record, at *gateway, input string) {
	c.w.deed("modern stray")
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"astray","method":"tools/call","params":{%s%s,"_meta":{%s}}}`, r.callParams(), input, modernMeta)
	said, status := c.aside(ctx, at, body, r.mark)
	if status != 0 && !strings.Contains(said, "requestState is unknown") && !isBusy(status) && !at.couldNotAsk(input, said) {
		c.w.wrong("%s: a state of the other replica was not unknown: %d %s", c.name, status, said)
	}
}

// couldNotAsk reports whether a gateway has said that it could not ask the one who
// knows about a state: a process of its own, which was gone. What it has parked itself
// it knows itself, and nothing excuses it.
func (g *gateway) couldNotAsk(input, said string) bool {
	if strings.Contains(input, ownState) || !strings.Contains(said, `"source":"gateway"`) {
		return false
	}
	g.back.mu.Lock()
	defer g.back.mu.Unlock()
	return strings.Contains(said, `"outcome":"not_dispatched"`) || g.back.harmed > 0
}

// isBusy reports whether a status says that the request was not looked at.
func isBusy(status int) bool {
	return status/100 == 5 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// wander takes a session to the other replica, as somebody does who balances the
// load and knows nothing of sessions. There it has to be unknown, and nothing is to
// become of it where it lives. The client begins anew, or goes on.
func (c *legacyClient) wander(s *choice.Source) {
	how, moves := s.Intn(4), s.Intn(2) == 1
	session, event := c.belongings()
	to := c.w.other(c.w.homeOf(session))
	if session == "" || to == nil {
		return
	}
	c.w.deed("legacy wander")
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

// move has the client be at home elsewhere. What is under way in the session that it
// leaves goes on there.
func (c *legacyClient) move(session string, to *gateway) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == session {
		c.session, c.home = "", to
	}
}
