// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// listen listens on 127.0.0.1, for the redirect URI that it returns: at the configured port, or
// else at one that the gateway is registered with, or else at a free one.
func listen(ctx context.Context, o *config.OAuth, registered []string) (net.Listener, string, error) {
	host := cmp.Or(o.CallbackHost, "127.0.0.1")
	at := func(port int) (net.Listener, string, error) {
		var lc net.ListenConfig
		// Not at the host: localhost may be another address, too.
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, "", err
		}
		addr, _ := l.Addr().(*net.TCPAddr)
		return l, access.RedirectURI(o, addr.Port), nil
	}
	if o.CallbackPort != 0 {
		l, uri, err := at(o.CallbackPort)
		if err != nil {
			err = fmt.Errorf("the port of oauth.callbackPort cannot be used: %w (end the program that has it, or add --no-browser and paste the address)", err)
		}
		return l, uri, err
	}
	for _, text := range registered {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Hostname() != host || u.Path != access.CallbackPath {
			continue
		}
		if port, err := strconv.Atoi(u.Port()); err == nil {
			if l, uri, err := at(port); err == nil {
				return l, uri, nil
			}
		}
	}
	return at(0)
}

// callback receives the response of an authorization server, once.
type callback struct {
	source *grant.Source
	in     *grant.SignIn
	taken  atomic.Bool   // by a response
	ended  chan struct{} // closed after the response, with err
	err    error
}

func newCallback(source *grant.Source, in *grant.SignIn) *callback {
	return &callback{source: source, in: in, ended: make(chan struct{})}
}

// errOther is the error of a response that belongs to no sign-in, or to one that has ended.
var errOther = errors.New("it does not belong to this sign-in")

// take completes the sign-in with the query of a response. It returns errOther if the response
// changes nothing. Otherwise the sign-in has ended, with the same error.
func (c *callback) take(ctx context.Context, query url.Values) error {
	code, err := c.in.Check(query)
	if check, ok := errors.AsType[*oauth.CheckError](err); ok && (check.Check == oauth.CheckState || check.Check == oauth.CheckResponse) {
		return errOther
	}
	if c.taken.Swap(true) {
		return errOther
	}
	if err == nil {
		err = c.source.Complete(context.WithoutCancel(ctx), c.in, code)
	}
	c.err = err
	close(c.ended)
	return err
}

// ServeHTTP serves the redirect URI.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own, err := url.Parse(c.in.RedirectURI)
	switch {
	case err != nil || r.Host != own.Host || r.URL.Path != access.CallbackPath:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = errOther
	} else {
		err = c.take(r.Context(), query)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	text := message{"Signed in", "You can close this window."}
	switch {
	case errors.Is(err, errOther):
		w.WriteHeader(http.StatusBadRequest)
		text = message{"Not signed in", "This address belongs to no sign-in, or to one that has ended. Start again in the terminal."}
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		text = message{"Not signed in", "The terminal has the reason. You can close this window."}
	}
	// The browser may have gone.
	_, _ = fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>%[1]s - Signalbox</title></head>
<body><h1>%[1]s</h1><p>%[2]s</p></body></html>
`, text.Title, text.Text)
}

// message is the content of a page, which needs no escapes.
type message struct{ Title, Text string }

// serve serves the redirect URI until stop, which returns when the page was sent.
func (c *callback) serve(l net.Listener) (stop func()) {
	server := &http.Server{
		Handler: c, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	done := make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(done)
		_ = server.Serve(l)
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-done
	}
}

// pageTimeout bounds how long the last page may take.
const pageTimeout = 2 * time.Second
