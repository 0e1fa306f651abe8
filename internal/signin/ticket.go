// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
)

// TicketLife is how long a ticket can be used.
const TicketLife = time.Minute

// Ticketed is a sign-in that a program begins for its user, which the program has authenticated.
type Ticketed struct {
	ID  string
	URL string // of the page, with a ticket for one use within TicketLife if the page needs one

	// Refusals are those by the user so far, for Await.
	Refusals int
}

// Begin begins a sign-in of the principal of m outside of any request, or joins the one that has
// begun. The browser that uses the ticket is the principal's, for this sign-in. An earlier ticket
// of the sign-in is not valid any more. The error is ErrFull, or that of a page.
func (d *Desk) Begin(ctx context.Context, m *grant.Missing, source *grant.Source) (*Ticketed, error) {
	p, err := d.begin(ctx, m, source)
	if err != nil {
		return nil, err
	}
	ticket := rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	t := &Ticketed{ID: p.id, URL: p.url, Refusals: p.refusals}
	if d.cfg.Identify != nil {
		p.ticket, p.ticketUntil = sha256.Sum256([]byte(ticket)), time.Now().Add(TicketLife)
		t.URL += "?" + ticketField + "=" + ticket
	}
	return t, nil
}

// State is the state of a sign-in.
type State string

// The states.
const (
	StateOpen    State = "open"
	StateRefused State = "refused" // by the user, who may start again
	StateEnded   State = "ended"   // the user has signed in, or the time is over
)

// Await waits until a sign-in of a principal at a backend has another state than open, and for a
// time at most. A sign-in has the state refused if it has more refusals than those that the caller
// knows of. One that is not known has ended.
func (d *Desk) Await(ctx context.Context, id, principal, backend string, refusals int, most time.Duration) State {
	p := d.find(id)
	if p == nil || p.owner != (owner{principal, backend}) {
		return StateEnded
	}
	d.mu.Lock()
	known := p.refusals
	d.mu.Unlock()
	if known > refusals {
		return StateRefused
	}
	switch d.wait(ctx, p, most, func() {}) {
	case open:
		return StateOpen
	case refused:
		return StateRefused
	default:
		return StateEnded
	}
}

const (
	ticketField   = "ticket"
	ticketName    = "signalbox-ticket-"
	ticketPurpose = "sign-in ticket"
)

// takeTicket answers the request of a browser with a ticket: the browser is that of the pending's
// principal from now on, and asks for the page again, so that the ticket is not in its address. A
// ticket that does not count changes nothing.
func (d *Desk) takeTicket(w http.ResponseWriter, r *http.Request, id, ticket string) {
	_, isKnown := d.principalOf(r, id)
	// A browser sends these for a link in a page or a mail. A ticket is for the address line.
	site, mode := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Mode")
	isTyped := (site == "" || site == "none") && (mode == "" || mode == "navigate")
	if p := d.find(id); p != nil && !isKnown && isTyped && d.redeem(p, ticket) {
		http.SetCookie(w, cookie(p.base, ticketCookie(p.id), d.sealTicket(p), time.Until(p.expires)))
	}
	toPage(w, r, id)
}

// redeem reports whether a text is the ticket of a pending, and makes it invalid.
func (d *Desk) redeem(p *pending, ticket string) bool {
	sum := sha256.Sum256([]byte(ticket))
	d.mu.Lock()
	defer d.mu.Unlock()
	if !time.Now().Before(p.ticketUntil) || subtle.ConstantTimeCompare(sum[:], p.ticket[:]) != 1 {
		return false
	}
	p.ticket, p.ticketUntil = [32]byte{}, time.Time{}
	return true
}

// sealTicket returns the value of the cookie of a browser that has used the ticket of a pending.
func (d *Desk) sealTicket(p *pending) string {
	until := strconv.FormatInt(p.expires.Unix(), 10)
	return d.box.Seal(ticketPurpose, []byte(until+" "+p.id+" "+p.principal))
}

// openTicket returns the principal of such a cookie, if it is for the pending with an id.
func (d *Desk) openTicket(value, id string) (principal string, ok bool) {
	plain, err := d.box.Open(ticketPurpose, value)
	if err != nil {
		return "", false
	}
	parts := strings.SplitN(string(plain), " ", 3)
	if len(parts) != 3 || parts[1] != id {
		return "", false
	}
	unix, err := strconv.ParseInt(parts[0], 10, 64)
	return parts[2], err == nil && time.Now().Unix() < unix
}

// ticketCookie returns the name of the cookie of a browser that has used a ticket.
func ticketCookie(id string) string { return ticketName + digestOf(id) }
