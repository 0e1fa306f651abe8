// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// IsPage reports whether a Desk serves a path.
func IsPage(path string) bool {
	return path == PathCallback || path == PathIdentity || path == PathClient || strings.HasPrefix(path, PathPages)
}

// prepareTimeout bounds the time to find an authorization server and to register there.
const prepareTimeout = 30 * time.Second

// maxForm bounds the size of a form.
const maxForm = 64 << 10

// ServeHTTP serves the pages.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	id, isPage := strings.CutPrefix(r.URL.Path, PathPages)
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case isPage && isRead:
		d.showPage(w, r, id)
	case isPage && r.Method == http.MethodPost:
		d.postPage(w, r, id)
	case r.URL.Path == PathCallback && r.Method == http.MethodGet:
		d.callback(w, r)
	case r.URL.Path == PathIdentity && d.cfg.Provider == nil:
		http.NotFound(w, r)
	case r.URL.Path == PathIdentity && r.Method == http.MethodGet:
		d.identified(w, r)
	case r.URL.Path == PathClient && isRead && d.client != nil:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "max-age=300")
		_, _ = w.Write(d.client) // fails only if the client has left
	case r.URL.Path == PathClient && isRead:
		http.NotFound(w, r)
	case isPage:
		h.Set("Allow", "GET, HEAD, POST")
		d.message(w, http.StatusMethodNotAllowed, "This page cannot be requested like that", "")
	default:
		h.Set("Allow", "GET")
		d.message(w, http.StatusMethodNotAllowed, "This page cannot be requested like that", "")
	}
}

// showPage shows what a user is about to allow, or asks the user to identify itself. It begins
// nothing: programs open links, too.
func (d *Desk) showPage(w http.ResponseWriter, r *http.Request, id string) {
	if ticket := r.URL.Query().Get(ticketField); ticket != "" && r.Method == http.MethodGet {
		d.takeTicket(w, r, id, ticket)
		return
	}
	principal, isKnown := d.principalOf(r, id)
	if !isKnown {
		writePage(w, http.StatusOK, "Identify yourself", d.formPage(id))
		return
	}
	p := d.ownPending(r, id, principal)
	if p == nil {
		d.unknown(w)
		return
	}
	if p.source == nil {
		writePage(w, http.StatusOK, "Sign in for "+p.backend, startPage{
			Action: PathPages + id, Principal: principal, Backend: p.backend, Server: d.cfg.Provider.Host(), IsIdentity: true,
		})
		return
	}
	in, err := d.prepared(r.Context(), p)
	if err != nil {
		d.notPrepared(w, r, p, err)
		return
	}
	page := startPage{Action: PathPages + id, Principal: principal, Backend: p.backend, Server: hostOf(in.URL), Issuer: hostOf(in.Issuer), Scopes: in.Scopes}
	if in.Previous != "" {
		page.Previous = hostOf(in.Previous)
	}
	if page.Issuer == page.Server {
		page.Issuer = ""
	}
	writePage(w, http.StatusOK, "Sign in to "+page.Backend, page)
}

// ownPending returns a pending of a principal, or nil. Those of others look as if they did not
// exist.
func (d *Desk) ownPending(r *http.Request, id, principal string) *pending {
	p := d.find(id)
	if p == nil {
		return nil
	}
	if p.principal != principal {
		d.event(r.Context(), Event{Kind: Foreign, Principal: principal, Backend: p.backend, Remote: r.RemoteAddr})
		return nil
	}
	return p
}

// prepared returns the authorization request of a pending, which it makes unless there is one.
func (d *Desk) prepared(ctx context.Context, p *pending) (*grant.SignIn, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	if p.isStale {
		d.resetLocked(p)
	}
	in, scopes := p.signIn, p.scopes
	d.mu.Unlock()
	if in != nil {
		return in, nil
	}
	redirect, err := d.redirectURI(ctx, p)
	if err != nil {
		return nil, err
	}
	in, err = p.source.Prepare(ctx, p.principal, grant.SignInOptions{RedirectURI: redirect, Scopes: scopes})
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(in.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("the authorization endpoint is not an http or https URL")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byID[p.id] != p {
		return nil, errEnded
	}
	p.signIn, p.isStale = in, len(p.scopes) != len(scopes)
	d.byState[in.State] = p
	return in, nil
}

var errEnded = errors.New("the sign-in has ended")

func (d *Desk) notPrepared(w http.ResponseWriter, r *http.Request, p *pending, err error) {
	if errors.Is(err, errEnded) {
		d.unknown(w)
		return
	}
	d.cfg.Logger.WarnContext(r.Context(), "a sign-in cannot begin", slog.String("backend", p.backend), slog.Any("error", err))
	d.event(r.Context(), Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Remote: r.RemoteAddr, Detail: "not begun"})
	d.message(w, http.StatusBadGateway, "The sign-in cannot begin", reasonFor(p, err))
}

// reasonFor returns the text of an error that is for users.
func reasonFor(p *pending, err error) string {
	if own, ok := errors.AsType[*grant.Error](err); ok {
		return p.backend + ": " + own.Error() + "."
	}
	if own, ok := errors.AsType[*redirectError](err); ok {
		return p.backend + ": " + own.Error() + "."
	}
	return "The log of the gateway has the reason."
}

// postPage begins a sign-in, or identifies the user. Only the page itself may post.
func (d *Desk) postPage(w http.ResponseWriter, r *http.Request, id string) {
	p := d.find(id)
	if !d.isOwnOrigin(r, p) {
		d.message(w, http.StatusForbidden, "This form was not sent by its page", "Open the link itself.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		d.message(w, http.StatusBadRequest, "The form cannot be read", "")
		return
	}
	principal, isKnown := d.principalOf(r, id)
	if token := strings.TrimSpace(r.PostForm.Get("token")); d.cfg.Identify != nil && token != "" {
		d.identify(w, r, id, token)
		return
	}
	switch {
	case !isKnown && d.cfg.Provider != nil && r.PostForm.Has(providerField) && isID(id):
		d.toProvider(w, r, id, nil)
		return
	case !isKnown && d.cfg.Provider != nil && r.PostForm.Has(providerField):
		d.unknown(w)
		return
	case !isKnown:
		toPage(w, r, id)
		return
	}
	if p = d.ownPending(r, id, principal); p == nil {
		d.unknown(w)
		return
	}
	if p.source == nil {
		d.toProvider(w, r, id, p)
		return
	}
	in, err := d.prepared(r.Context(), p)
	if err != nil {
		d.notPrepared(w, r, p, err)
		return
	}
	secret := rand.Text()
	d.mu.Lock()
	isCurrent := p.signIn == in
	if isCurrent {
		p.cookie, p.isBegun = sha256.Sum256([]byte(secret)), true
	}
	d.mu.Unlock()
	if !isCurrent {
		toPage(w, r, id)
		return
	}
	http.SetCookie(w, cookie(p.base, signInCookie(p.id), secret, time.Until(p.expires)))
	http.Redirect(w, r, in.URL, http.StatusSeeOther)
}

// isOwnOrigin reports whether a form was sent by a page of the Desk. The pages send no referrer,
// for which browsers send the Origin "null", and then Sec-Fetch-Site decides.
func (d *Desk) isOwnOrigin(r *http.Request, p *pending) bool {
	origins, site := r.Header.Values("Origin"), r.Header.Get("Sec-Fetch-Site")
	if len(origins) > 1 || site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || origin == "null" {
		return site == "same-origin"
	}
	if p != nil {
		return origin == p.base
	}
	if d.cfg.PublicURL != "" {
		return origin == d.cfg.PublicURL
	}
	// For an unknown id the form is answered like that of another principal's, and changes
	// nothing but the cookie of a user with a valid token.
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// formPage returns the ways to identify oneself.
func (d *Desk) formPage(id string) formPage {
	page := formPage{Action: PathPages + id, HasToken: d.cfg.Identify != nil}
	if d.cfg.Provider != nil {
		page.Server = d.cfg.Provider.Host()
	}
	return page
}

// identify sets the cookie of a user that has entered a token.
func (d *Desk) identify(w http.ResponseWriter, r *http.Request, id, token string) {
	if !d.attempts.allow(addressOf(r)) {
		w.Header().Set("Retry-After", strconv.Itoa(10))
		d.message(w, http.StatusTooManyRequests, "Too many tokens were tried", "Wait a minute, then try again.")
		return
	}
	principal, ok := d.cfg.Identify(r, mcp.NewToken(token))
	if !ok {
		page := d.formPage(id)
		page.IsWrong = true
		writePage(w, http.StatusForbidden, "Identify yourself", page)
		return
	}
	base := d.cfg.PublicURL
	if p := d.find(id); p != nil {
		base = p.base
	}
	http.SetCookie(w, cookie(base, browserName, d.sealBrowser(principal), Lifetime))
	toPage(w, r, id)
}

// toPage sends a browser to the page with an id.
func toPage(w http.ResponseWriter, r *http.Request, id string) {
	http.Redirect(w, r, PathPages+id, http.StatusSeeOther) //nolint:gosec // a path of this server
}

// callback receives the response of an authorization server.
func (d *Desk) callback(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		d.startAgain(w)
		return
	}
	p, in := d.take(r, query.Get("state"))
	if p == nil {
		d.startAgain(w)
		return
	}
	http.SetCookie(w, cookie(p.base, signInCookie(p.id), "", -time.Second))
	code, err := in.Check(query)
	if err != nil {
		d.notAllowed(w, r, p, err)
		return
	}
	if err := p.source.Complete(r.Context(), in, code); err != nil {
		d.cfg.Logger.WarnContext(r.Context(), "a sign-in was not completed", slog.String("backend", p.backend), slog.Any("error", err))
		d.event(r.Context(), Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Remote: r.RemoteAddr, Detail: "not completed"})
		writePage(w, http.StatusBadGateway, "The sign-in was not completed", messagePage{Text: reasonFor(p, err), Again: PathPages + p.id})
		return
	}
	d.end(p, done) //nolint:contextcheck // it notifies with the context of the Desk
	d.message(w, http.StatusOK, "You are signed in to "+p.backend, "You can close this window.")
}

// take returns the pending with a state, and its authorization request, if the request came from
// the browser that has begun it. It can be taken once.
func (d *Desk) take(r *http.Request, state string) (*pending, *grant.SignIn) {
	d.mu.Lock()
	p := d.byState[state]
	d.mu.Unlock()
	if state == "" || p == nil {
		return nil, nil
	}
	principal, isKnown := d.principalOf(r, p.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byState[state] != p || !isKnown || p.principal != principal || !p.isBegun || !time.Now().Before(p.expires) {
		return nil, nil
	}
	secrets := r.CookiesNamed(cookieName(p.base, signInCookie(p.id)))
	if len(secrets) != 1 {
		return nil, nil
	}
	if sum := sha256.Sum256([]byte(secrets[0].Value)); subtle.ConstantTimeCompare(sum[:], p.cookie[:]) != 1 {
		return nil, nil
	}
	in := p.signIn
	d.resetLocked(p)
	return p, in
}

// notAllowed answers a response of an authorization server that is not valid, or a refusal. Only the
// code of a refusal is shown, and only if its iss has been checked.
func (d *Desk) notAllowed(w http.ResponseWriter, r *http.Request, p *pending, err error) {
	text, detail := "The response of the authorization server was not valid, and was not used.", "invalid response"
	if server, ok := errors.AsType[*oauth.ServerError](err); ok {
		text, detail = "The authorization server has refused it.", "refused"
		if server.Code == oauth.CodeAccessDenied {
			text = "It was declined at the authorization server."
		}
	}
	d.cfg.Logger.WarnContext(r.Context(), "a sign-in was not completed", slog.String("backend", p.backend), slog.Any("error", err))
	d.event(r.Context(), Event{Kind: Failed, Principal: p.principal, Backend: p.backend, Remote: r.RemoteAddr, Detail: detail})
	if detail == "refused" {
		d.refuse(p)
	}
	writePage(w, http.StatusBadRequest, "You are not signed in to "+p.backend, messagePage{Text: text, Again: PathPages + p.id})
}

func (d *Desk) startAgain(w http.ResponseWriter) {
	d.message(w, http.StatusBadRequest, "This sign-in is not known here", "It has ended or expired, or was begun in another browser. Start again with the link that your program shows.")
}

func (d *Desk) unknown(w http.ResponseWriter) {
	d.message(w, http.StatusNotFound, "This sign-in is not known", "It has ended or expired, or is for someone else. Your program shows a new link when you use it again.")
}

// principalOf returns the principal of a browser, if it is known, for the pending with an id.
func (d *Desk) principalOf(r *http.Request, id string) (principal string, ok bool) {
	if d.cfg.Identify == nil && d.cfg.Provider == nil {
		return "", true
	}
	for _, c := range d.ownCookies(r, browserName) {
		if principal, ok := d.openBrowser(c.Value); ok {
			return principal, true
		}
	}
	for _, c := range d.ownCookies(r, ticketCookie(id)) {
		if principal, ok := d.openTicket(c.Value, id); ok {
			return principal, true
		}
	}
	return "", false
}

// ownCookies returns the cookies that pages set with a name. With a public URL their prefix excludes those of other
// hosts; without, the pages are at an address of this machine.
func (d *Desk) ownCookies(r *http.Request, name string) []*http.Cookie {
	if d.cfg.PublicURL != "" {
		return r.CookiesNamed(cookieName(d.cfg.PublicURL, name))
	}
	return append(r.CookiesNamed(name), r.CookiesNamed(hostPrefix+name)...)
}

const (
	browserName    = "signalbox-browser"
	hostPrefix     = "__Host-"
	browserPurpose = "sign-in browser"
)

// sealBrowser returns the value of the cookie of a principal.
func (d *Desk) sealBrowser(principal string) string {
	until := strconv.FormatInt(time.Now().Add(Lifetime).Unix(), 10)
	return d.box.Seal(browserPurpose, []byte(until+" "+principal), d.cfg.PublicURL)
}

func (d *Desk) openBrowser(value string) (principal string, ok bool) {
	plain, err := d.box.Open(browserPurpose, value, d.cfg.PublicURL)
	if err != nil {
		return "", false
	}
	until, principal, _ := strings.Cut(string(plain), " ")
	unix, err := strconv.ParseInt(until, 10, 64)
	return principal, err == nil && time.Now().Unix() < unix
}

// signInCookie returns the name of the cookie of a pending: a browser may have begun several.
func signInCookie(id string) string { return "signalbox-signin-" + digestOf(id) }

// digestOf returns a text for the name of a cookie. Ids are not shown in names.
func digestOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// cookieName returns the name of a cookie with the prefix that keeps other hosts of the domain
// from setting it, where cookies can be secure.
func cookieName(base, name string) string {
	if strings.HasPrefix(base, "https:") {
		return hostPrefix + name
	}
	return name
}

// cookie returns a cookie of the pages. Lax, since it has to be sent when an authorization server
// redirects the browser back.
func cookie(base, name, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // secure wherever the pages are
		Name: cookieName(base, name), Value: value, Path: "/", MaxAge: int(life.Seconds()),
		HttpOnly: true, Secure: strings.HasPrefix(base, "https:"), SameSite: http.SameSiteLaxMode,
	}
}

// hostOf returns the host of a URL, which a user should know.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// clientDocument returns the metadata of the gateway as a client (OAuth Client ID Metadata
// Document), or nil without an https base.
func clientDocument(base, name string) ([]byte, error) {
	id := ClientID(base)
	if id == "" {
		return nil, nil
	}
	return oauth.MetadataDocument(id, oauth.ClientMetadata{Name: name, RedirectURIs: []string{base + PathCallback}, Method: oauth.MethodNone})
}

// ClientID returns the client id of a gateway with a public URL: that of its metadata document, or
// "" if authorization servers do not read it there.
func ClientID(base string) string {
	if !strings.HasPrefix(base, "https://") {
		return ""
	}
	return base + PathClient
}

func (d *Desk) message(w http.ResponseWriter, status int, title, text string) {
	writePage(w, status, title, messagePage{Text: text})
}

// A content writes what a page has below its title.
type content interface{ writeTo(b *htmlText) }

type (
	startPage struct {
		Action, Principal, Backend, Server, Issuer, Previous string
		Scopes                                               []string
		IsIdentity                                           bool // the server is the identity provider
	}
	formPage struct {
		Action, Server string // the identity provider, or ""
		HasToken       bool   // users may enter a token
		IsWrong        bool   // the last one was
	}
	messagePage struct{ Text, Again string }
)

func (p startPage) writeTo(b *htmlText) {
	b.write("<p>A program that uses this gateway")
	if p.Principal != "" {
		b.write(" as <strong>%s</strong>", p.Principal)
	}
	if p.IsIdentity {
		b.write(" needs a proof of it for <strong>%s</strong>.</p>\n<p>You will sign in at <strong>%s</strong>.</p>\n", p.Backend, p.Server)
		p.writeButton(b)
		return
	}
	b.write(" needs your access to <strong>%s</strong>.</p>\n<p>You will sign in at <strong>%s</strong>", p.Backend, p.Server)
	if p.Issuer != "" {
		b.write(", for %s", p.Issuer)
	}
	b.write(".</p>\n")
	if p.Previous != "" {
		b.write("<p>Before, it was %s. Continue only if you know that %s has moved.</p>\n", p.Previous, p.Backend)
	}
	if len(p.Scopes) > 0 {
		b.write("<p>The gateway asks for:</p>\n<ul>\n")
		for _, scope := range p.Scopes {
			b.write("<li><code>%s</code></li>\n", scope)
		}
		b.write("</ul>\n")
	}
	p.writeButton(b)
}

func (p startPage) writeButton(b *htmlText) {
	b.write("<p>Continue only if you have just been asked to by a program of yours.</p>\n")
	b.write(`<form method="post" action="%s"><button>Continue to %s</button></form>`, p.Action, p.Server)
}

func (p formPage) writeTo(b *htmlText) {
	if p.IsWrong {
		b.write("<p>The gateway does not accept this token.</p>\n")
	}
	if p.Server != "" {
		b.write("<p>Sign in at <strong>%s</strong> with your account there, so that this gateway knows you.</p>\n", p.Server)
		b.write(`<form method="post" action="%s"><button name="`+providerField+`" value="1">Continue to %s</button></form>`, p.Action, p.Server)
	}
	if p.Server != "" && p.HasToken {
		b.write("\n<p>Or enter the token with which your program uses this gateway, if it has one.</p>\n")
	} else if p.HasToken {
		b.write("<p>Enter the token with which your program uses this gateway.</p>\n")
	}
	if p.HasToken {
		b.write(`<form method="post" action="%s"><label>Token <input type="password" name="token" autocomplete="off" required></label> <button>Continue</button></form>`, p.Action)
	}
}

func (p messagePage) writeTo(b *htmlText) {
	if p.Text != "" {
		b.write("<p>%s</p>\n", p.Text)
	}
	if p.Again != "" {
		b.write(`<p><a href="%s">Start again</a></p>`, p.Again)
	}
}

// htmlText is the text of a page. It is not a html/template: with that, the linker keeps all
// exported methods of the program, which are 5 MiB.
type htmlText struct{ bytes.Buffer }

// write appends HTML with values, which must be the text of an element, or a path of this server in
// a quoted attribute.
func (b *htmlText) write(format string, values ...string) {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	_, _ = fmt.Fprintf(b, format, escaped...) // a buffer has no errors
}

func writePage(w http.ResponseWriter, status int, title string, c content) {
	var b htmlText
	b.write(`<!doctype html>
<html lang="en">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>%s - Signalbox</title>
<h1>%s</h1>
`, title, title)
	c.writeTo(&b)
	b.write("\n</html>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails only if the client has left
}
