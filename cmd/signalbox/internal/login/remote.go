// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
)

// accessPath is where a gateway lets callers manage their own access.
const accessPath = "/oauth/credentials"

// awaitTimeout bounds one request. The gateway answers one that waits sooner.
const awaitTimeout = 30 * time.Second

// urlFlag adds the flag with the URL of a gateway.
func urlFlag(cmd *cobra.Command, to *string) {
	command.AddWord(cmd, to, "url", "", "ask the gateway at this `URL`, such as https://mcp.example.com/mcp, instead of using a configuration; "+
		target.TokenVariable+" may hold the bearer token of the user for it")
}

// gateway is a gateway at a URL, with the token of a user.
type gateway struct {
	base      url.URL // scheme and host
	profile   string
	header    http.Header
	hasToken  bool
	transport *http.Transport
}

// dialGateway returns the gateway at the value of --url. The other flags are those that it
// excludes.
func dialGateway(e *command.Env, at string, others map[string]string) (*gateway, error) {
	for _, name := range []string{"config", "as"} {
		if others[name] != "" {
			return nil, command.Usagef("both --url and --%s; choose one", name)
		}
	}
	u, err := target.ParseURL(at)
	if err != nil {
		return nil, err
	}
	header, err := target.Header(e, nil)
	if err != nil {
		return nil, err
	}
	g := &gateway{base: url.URL{Scheme: u.Scheme, Host: u.Host}, header: header, hasToken: header.Get("Authorization") != ""}
	if i := strings.LastIndex(u.Path, profiles.Route); i >= 0 {
		g.profile = u.Path[i+len(profiles.Route):]
	}
	g.transport = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	return g, nil
}

func (g *gateway) close() { g.transport.CloseIdleConnections() }

// ask sends a request about a server, or about all if the name is "", and decodes the response.
func (g *gateway) ask(ctx context.Context, method, server string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	u := g.base
	u.Path = accessPath
	if server != "" {
		u.Path += "/" + server
	}
	if query == nil {
		query = url.Values{}
	}
	if g.profile != "" {
		query.Set("profile", g.profile)
	}
	u.RawQuery = query.Encode()
	resp, err := control.RoundTrip(ctx, g.transport, method, u.String(), g.header)
	switch {
	case err != nil:
		return control.ExplainDial(err)
	case resp.Code == http.StatusUnauthorized && g.hasToken:
		return fmt.Errorf("%s: the token in %s was not accepted; check it", g.base.Host, target.TokenVariable)
	case resp.Code == http.StatusUnauthorized:
		return fmt.Errorf("%s: put the bearer token with which your program uses the gateway into %s", g.base.Host, target.TokenVariable)
	case resp.Code != http.StatusOK && isText(resp.Header):
		return fmt.Errorf("%s: %s", g.base.Host, output.Shorten(output.VisibleLine(strings.TrimSpace(string(resp.Body))), maxScopes))
	case resp.Code != http.StatusOK:
		return fmt.Errorf("%s: HTTP status %d; check the URL, and that it is a gateway of this version", g.base.Host, resp.Code)
	}
	if err := control.Decode(resp.Body, into); err != nil {
		return fmt.Errorf("%s: the response is not that of a gateway; check the URL", g.base.Host)
	}
	return nil
}

func isText(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "text/plain") }

// signInState is what a gateway answers about a sign-in.
type signInState struct {
	State      string      `json:"state"`
	ID         string      `json:"signin"`
	URL        string      `json:"url"`
	Refusals   int         `json:"refusals"`
	Credential *credential `json:"credential"`
}

// loginAt signs the user of a token in at a gateway. The gateway has the pages, and makes the grant.
func loginAt(ctx context.Context, e *command.Env, f *loginFlags, name string) error {
	g, err := dialGateway(e, f.url, map[string]string{"config": f.config, "as": f.as})
	if err != nil {
		return err
	}
	defer g.close()
	ctx, done := e.Interruptible(ctx)
	defer done()
	var s signInState
	if err := g.ask(ctx, http.MethodPost, name, nil, &s); err != nil {
		return g.failed(ctx, "login", name, err)
	}
	if s.State == "done" {
		return printSignedIn(e, name, s.Credential, true)
	}
	showPage(ctx, e, f, g, s.URL)
	if err := g.await(ctx, f, name, &s); err != nil {
		return g.failed(ctx, "login", name, err)
	}
	return printSignedIn(e, name, s.Credential, false)
}

// failed returns the error of a command, or that of its interruption.
func (g *gateway) failed(ctx context.Context, command, name string, err error) error {
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	return fmt.Errorf("%s %s: %w", command, name, err)
}

// showPage opens the page of a gateway, or prints its address.
func showPage(ctx context.Context, e *command.Env, f *loginFlags, g *gateway, page string) {
	note := ""
	if u, err := url.Parse(page); err == nil && u.RawQuery != "" {
		note = ", within a minute; it is for you alone"
	}
	if f.noBrowser {
		e.PrintError(fmt.Sprintf("to sign in, open this address of %s in a browser%s:", g.base.Host, note))
		_ = e.PrintText(e.Stdout, output.VisibleLine(page)+"\n")
		return
	}
	if err := openBrowser(ctx, e, page, "run the command again with --no-browser"); err != nil {
		e.PrintError(fmt.Sprintf("no browser was started: %v\nto sign in, open this address%s: %s", err, note, output.VisibleLine(page)))
		return
	}
	e.PrintError(fmt.Sprintf("signing in at %s in your browser", g.base.Host))
}

// await waits for the end of a sign-in.
func (g *gateway) await(ctx context.Context, f *loginFlags, name string, s *signInState) error {
	late, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	query := url.Values{"signin": {s.ID}, "refusals": {strconv.Itoa(s.Refusals)}}
	for {
		var now signInState
		began := time.Now()
		err := g.ask(late, http.MethodGet, name, query, &now)
		switch {
		case late.Err() != nil && ctx.Err() == nil:
			return fmt.Errorf("there was no sign-in within %v; run the command again, with --wait for more time", f.wait)
		case err != nil:
			return err
		}
		switch now.State {
		case "done":
			*s = now
			return nil
		case "refused":
			return errors.New("the sign-in was refused at the authorization server; run the command again to try it again")
		case "ended":
			return errors.New("the sign-in has ended without access; run the command again")
		}
		if time.Since(began) < retryInterval { // a gateway waits
			pause(late, retryInterval)
		}
	}
}

// printSignedIn prints the access that a user has.
func printSignedIn(e *command.Env, name string, c *credential, isOld bool) error {
	text := name + ": "
	if c != nil && c.Principal != "" {
		text += output.VisibleLine(c.Principal) + " is "
	}
	text += "signed in"
	if isOld {
		text += " already"
	}
	if c != nil {
		text += " at " + output.VisibleLine(hostOf(c.Issuer))
		if scopes := scopesText(c.Scopes); scopes != "" {
			text += ", scopes " + output.VisibleLine(scopes)
		}
		text += ", until " + lifeText(c.Until, c.Renewed, time.Now())
	}
	if isOld {
		text += "; 'signalbox logout' signs out"
	}
	return e.PrintText(e.Stdout, text+"\n")
}

// logoutAt revokes and deletes the access of the user of a token at a gateway.
func logoutAt(ctx context.Context, e *command.Env, at, file, as, name string) error {
	g, err := dialGateway(e, at, map[string]string{"config": file, "as": as})
	if err != nil {
		return err
	}
	defer g.close()
	var out struct {
		Deleted      int    `json:"deleted"`
		Issuer       string `json:"issuer"`
		NoRevocation bool   `json:"noRevocation"`
		Failure      string `json:"failure"`
	}
	if err := g.ask(ctx, http.MethodDelete, name, nil, &out); err != nil {
		return g.failed(ctx, "logout", name, err)
	}
	issuer := output.VisibleLine(hostOf(out.Issuer))
	text := name + ": not signed in, nothing to delete"
	if out.Deleted > 0 {
		text = name + ": signed out"
		if !out.NoRevocation && out.Failure == "" {
			text += ", and revoked at " + issuer
		}
	}
	if err := e.PrintText(e.Stdout, text+"\n"); err != nil {
		return err
	}
	if out.NoRevocation {
		printNoRevocation(e, issuer)
	}
	if out.Failure != "" {
		return fmt.Errorf("logout %s: %s", name, output.Shorten(output.VisibleLine(out.Failure), 4*maxScopes))
	}
	return nil
}

// printNoRevocation prints that an authorization server cannot revoke access.
func printNoRevocation(e *command.Env, issuer string) {
	e.PrintError(fmt.Sprintf("note: %s has no way to revoke the access: it ends by itself, or remove it in the settings of your account there", issuer))
}

// listAt prints the access of the user of a token at a gateway.
func listAt(ctx context.Context, e *command.Env, at, file string, asJSON bool) error {
	g, err := dialGateway(e, at, map[string]string{"config": file})
	if err != nil {
		return err
	}
	defer g.close()
	var out struct {
		Credentials []credential `json:"credentials"`
	}
	if err := g.ask(ctx, http.MethodGet, "", nil, &out); err != nil {
		return err
	}
	if out.Credentials == nil {
		out.Credentials = []credential{}
	}
	return printCredentials(e, out.Credentials, asJSON)
}
