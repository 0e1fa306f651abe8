// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// redirectURI returns the redirect URI of a pending: that which the configured client is registered
// with, or else one that the gateway is registered with, or else that of the pages. One that is not
// that of the pages gets a listener, which sends the browser on to them.
func (d *Desk) redirectURI(ctx context.Context, p *pending) (string, error) {
	own := p.base + PathCallback
	isLocal := isLocal(p.base)
	fixed, registered, err := p.source.Redirects(ctx, isLocal)
	switch {
	case err != nil:
		return "", err
	case fixed == "" && slices.Contains(registered, own):
		return own, nil
	case fixed != "" && !isLocal:
		return "", &redirectError{fmt.Sprintf("the client of oauth.clientId is registered with the redirect URI %s (oauth.callbackPort), which is on the machine of its user, and browsers "+
			"reach this gateway at %s: register %s for the client and remove oauth.callbackPort, or sign in on the machine of the gateway with signalbox login %s", fixed, p.base, own, p.backend)}
	case fixed != "":
		if err := d.receive(ctx, p, fixed); err != nil {
			return "", &redirectError{fmt.Sprintf("the port of oauth.callbackPort, for the redirect URI %s, cannot be used: %v (end the program that has it)", fixed, err)}
		}
		return fixed, nil
	}
	for _, uri := range registered {
		u, err := url.Parse(uri)
		if err != nil || u.RawQuery != "" || u.Scheme != "http" || u.Port() == "" || u.Hostname() != "127.0.0.1" {
			continue
		}
		if d.receive(ctx, p, uri) == nil {
			return uri, nil
		}
	}
	return own, nil
}

// redirectError is an error of a redirect URI, with a text for users.
type redirectError struct{ text string }

// Error returns the text.
func (e *redirectError) Error() string { return e.text }

// isLocal reports whether a base is on this machine.
func isLocal(base string) bool {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}

// receiver is a listener for a redirect URI on 127.0.0.1, for all pendings that have the URI.
type receiver struct {
	server *http.Server
	users  int
}

// receive has the responses to a redirect URI on this machine sent on to the pages, until the
// pending ends.
func (d *Desk) receive(ctx context.Context, p *pending, uri string) error {
	u, err := url.Parse(uri)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.byID[p.id] != p:
		return errEnded
	case p.receives == uri:
		return nil
	}
	d.releaseLocked(p)
	r := d.receivers[uri]
	if r == nil {
		var lc net.ListenConfig
		// Not at the host: localhost may be another address, too.
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", cmp.Or(u.Port(), "80")))
		if err != nil {
			return err
		}
		r = &receiver{server: &http.Server{
			Handler: forward(u, p.base+PathCallback), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
			MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		}}
		d.receivers[uri] = r
		d.wg.Go(func() { _ = r.server.Serve(l) }) // ends with the last pending; Close waits for it
	}
	r.users++
	p.receives = uri
	return nil
}

// releaseLocked ends the use of a redirect URI by a pending.
func (d *Desk) releaseLocked(p *pending) {
	r := d.receivers[p.receives]
	if r == nil {
		return
	}
	if r.users--; r.users == 0 {
		delete(d.receivers, p.receives)
		_ = r.server.Close() // the browser has its response, and has followed it
	}
	p.receives = ""
}

// forward sends a browser that comes to a redirect URI on to the pages, where its cookies are. They
// check the response; here only the address is.
func forward(uri *url.URL, to string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Host != uri.Host || r.URL.Path != uri.Path:
			http.NotFound(w, r)
		case r.Method != http.MethodGet:
			h.Set("Allow", http.MethodGet)
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
		default:
			http.Redirect(w, r, to+"?"+r.URL.RawQuery, http.StatusSeeOther) //nolint:gosec // a path of this gateway
		}
	})
}
