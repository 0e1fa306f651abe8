// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
)

// PathIdentity is where the identity provider sends browsers. It is not PathCallback, so that a
// response of one server cannot be taken for that of another (RFC 9700, section 4.4.2.2).
const PathIdentity = "/oauth/identity"

// maxIdentifying bounds the browsers that are at the identity provider. The oldest one makes
// room.
const maxIdentifying = 1000

// identifying is a browser that was sent to the identity provider.
type identifying struct {
	*oidc.Request

	page   string   // the id of the page that it comes from
	own    *pending // of that page, if the browser was known as that of its principal
	cookie [32]byte // the digest of the secret of the browser
	began  time.Time
}

// providerField is the field of a form with which its user goes to the identity provider.
const providerField = "provider"

// toProvider sends a browser to the identity provider, from a page. own is the pending of that page
// if the browser is known as that of its principal, or nil.
func (d *Desk) toProvider(w http.ResponseWriter, r *http.Request, id string, own *pending) {
	if !d.begins.allow(addressOf(r)) {
		w.Header().Set("Retry-After", strconv.Itoa(10))
		d.message(w, http.StatusTooManyRequests, "Too many sign-ins have begun", "Wait a minute, then try again.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), prepareTimeout)
	defer cancel()
	req, err := d.cfg.Provider.Begin(ctx, d.cfg.PublicURL+PathIdentity)
	if err != nil {
		d.cfg.Logger.WarnContext(r.Context(), "a user cannot be identified", slog.Any("error", err))
		d.message(w, http.StatusBadGateway, "The sign-in cannot begin", d.cfg.Provider.Host()+" cannot be reached, or is not usable. The log of the gateway has the reason.")
		return
	}
	secret := rand.Text()
	d.keepIdentifying(&identifying{req, id, own, sha256.Sum256([]byte(secret)), time.Now()})
	http.SetCookie(w, cookie(d.cfg.PublicURL, identityCookie(req.State), secret, Lifetime))
	http.Redirect(w, r, req.URL, http.StatusSeeOther)
}

// keepIdentifying keeps a browser until it comes back.
func (d *Desk) keepIdentifying(b *identifying) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.identifying) >= maxIdentifying {
		var oldest *identifying
		for state, other := range d.identifying {
			switch {
			case b.began.Sub(other.began) >= Lifetime:
				delete(d.identifying, state)
			case oldest == nil || cmp.Or(other.began.Compare(oldest.began), cmp.Compare(other.State, oldest.State)) < 0:
				oldest = other
			}
		}
		if len(d.identifying) >= maxIdentifying {
			delete(d.identifying, oldest.State)
		}
	}
	d.identifying[b.State] = b
	if b.own != nil {
		b.own.isBegun = true
	}
}

// takeIdentifying returns the browser with a state, if the request came from that browser. It can be
// taken once.
func (d *Desk) takeIdentifying(r *http.Request, state string) *identifying {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.identifying[state]
	if state == "" || b == nil || time.Since(b.began) >= Lifetime {
		return nil
	}
	secrets := r.CookiesNamed(cookieName(d.cfg.PublicURL, identityCookie(state)))
	if len(secrets) != 1 {
		return nil
	}
	if sum := sha256.Sum256([]byte(secrets[0].Value)); subtle.ConstantTimeCompare(sum[:], b.cookie[:]) != 1 {
		return nil
	}
	delete(d.identifying, state)
	return b
}

// identified receives the response of the identity provider, and sends the browser back to its page.
func (d *Desk) identified(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		d.startAgain(w)
		return
	}
	b := d.takeIdentifying(r, query.Get("state"))
	if b == nil {
		d.startAgain(w)
		return
	}
	http.SetCookie(w, cookie(d.cfg.PublicURL, identityCookie(b.State), "", -time.Second))
	id, err := d.cfg.Provider.Complete(r.Context(), b.Request, query)
	if err != nil {
		d.notIdentified(w, r, b, err)
		return
	}
	p := d.find(b.page) // what is kept may end it
	err = d.keep(r, id)
	http.SetCookie(w, cookie(d.cfg.PublicURL, browserName, d.sealBrowser(id.Principal), Lifetime))
	if p == nil || p.principal != id.Principal || p.source != nil {
		toPage(w, r, b.page)
		return
	}
	if err != nil {
		d.failed(r, p, "not kept")
		writePage(w, http.StatusBadGateway, "The sign-in was not completed", messagePage{Text: "The log of the gateway has the reason.", Again: PathPages + p.id})
		return
	}
	d.end(p, done) //nolint:contextcheck // it notifies with the context of the Desk
	d.message(w, http.StatusOK, "You are signed in at "+d.cfg.Provider.Host(), "You can close this window.")
}

// keep keeps the ID token of a user, if there is a use for it.
func (d *Desk) keep(r *http.Request, id *oidc.Identity) error {
	if d.cfg.Keep == nil {
		return nil
	}
	err := d.cfg.Keep(r.Context(), id)
	if err != nil {
		d.cfg.Logger.ErrorContext(r.Context(), "the ID token of a user could not be kept", slog.String("principal", id.Principal), slog.Any("error", err))
	}
	return err
}

// notIdentified answers a response of the identity provider that is not valid, or a refusal. Nothing
// of the response is shown.
func (d *Desk) notIdentified(w http.ResponseWriter, r *http.Request, b *identifying, err error) {
	host := d.cfg.Provider.Host()
	text, detail := "The response of "+host+" was not valid, and was not used. The log of the gateway has the reason.", "invalid response"
	server, isRefused := errors.AsType[*oauth.ServerError](err)
	switch {
	case isRefused && server.Code == oauth.CodeAccessDenied:
		text, detail = "It was declined at "+host+".", "refused"
	case isRefused:
		text, detail = host+" has refused it.", "refused"
	}
	d.cfg.Logger.WarnContext(r.Context(), "a user was not identified", slog.Any("error", err))
	if b.own != nil {
		d.failed(r, b.own, detail)
		if isRefused {
			d.refuse(b.own)
		}
	}
	writePage(w, http.StatusBadRequest, "You are not signed in at "+host, messagePage{Text: text, Again: PathPages + b.page})
}

func (d *Desk) failed(r *http.Request, p *pending, detail string) {
	d.event(r.Context(), Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Remote: r.RemoteAddr, Detail: detail})
}

// identityCookie returns the name of the cookie of a browser that is at the identity provider: it may
// be there for several pages.
func identityCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return "signalbox-identity-" + hex.EncodeToString(sum[:4])
}

// isID reports whether a text has the form of the id of a pending.
func isID(text string) bool {
	const base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	return len(text) == 26 && !slices.ContainsFunc([]byte(text), func(c byte) bool { return strings.IndexByte(base32, c) < 0 })
}

// addressOf returns the address that a request came from, without the port.
func addressOf(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}

// access is what a pending waits for. A *grant.Source is one: the grant of the principal.
type access interface {
	// Watch returns a channel that is closed when something changes for a principal.
	Watch(ctx context.Context, principal string) <-chan struct{}
	// Has reports whether a principal has what the pending is for.
	Has(ctx context.Context, principal string, scopes []string) bool
}

// idTokens is the access of a pending that ends with a sign-in at the identity provider: an ID token,
// from a sign-in after a time.
type idTokens struct {
	*oidc.Tokens
	after time.Time
}

// Has reports whether there is such a token. It has no scopes.
func (t idTokens) Has(ctx context.Context, principal string, _ []string) bool {
	return t.Tokens.Has(ctx, principal, t.after)
}
