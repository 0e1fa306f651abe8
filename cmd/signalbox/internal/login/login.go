// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package login has the commands login, logout and credentials: they make, delete and list the
// grants of users at the authorization servers of backends. A running gateway has the same
// vault, and notices what they change.
package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Bounds of a sign-in.
const (
	signInWait   = 10 * time.Minute // for the user
	probeTimeout = 15 * time.Second // for the server
	maxPaste     = 16 << 10         // of an address
)

type loginFlags struct {
	config    string
	as        string
	url       string // of a gateway
	noBrowser bool
	wait      time.Duration
}

// New returns the command that signs a user in.
func New(e *command.Env) *cobra.Command {
	f := loginFlags{wait: signInWait}
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Sign in at the authorization server of a server",
		Long: `Sign in at the authorization server of a server, in a browser. The access is kept, and
running gateways that serve the configuration use it: calls that wait for it go on.

The browser is the program of the variable BROWSER, or else the one of the system. With
--no-browser the address is printed, for a browser on any machine. If that one cannot
reach this machine, its last page is an error; paste the address of that page here.

The entry of the server may have an oauth with a clientId, where the authorization server
registers no clients by itself, and with the callbackPort and callbackHost of that client.
The redirect URI to register there is http://127.0.0.1:PORT/callback.

With --url the gateway at the URL has the access, also on another machine. The browser opens
its page for the user of the token, with a ticket for one use within a minute, and the
command waits until the user has signed in. A configuration is not needed.`,
		Example: `  signalbox login github
  signalbox login github --no-browser
  signalbox login github --url https://mcp.example.com/mcp`,
		Args:              command.ArgsBetween(1, 1, "the NAME of a server"),
		ValidArgsFunction: completeServers(e, &f.config),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.wait <= 0 {
				return command.Usagef("--wait must be more than 0")
			}
			if f.url != "" {
				return loginAt(cmd.Context(), e, &f, args[0])
			}
			return login(cmd.Context(), e, &f, args[0])
		},
	}
	source.Flag(cmd, &f.config)
	asFlag(cmd, &f.as)
	urlFlag(cmd, &f.url)
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "print the address, and read the one that the browser ends at")
	cmd.Flags().DurationVar(&f.wait, "wait", f.wait, "how long to wait for the sign-in")
	return cmd
}

// asFlag adds the flag with the user.
func asFlag(cmd *cobra.Command, as *string) {
	command.AddWord(cmd, as, "as", "", "the `PRINCIPAL` of the user, for a configuration with auth")
}

// login signs a user in.
func login(ctx context.Context, e *command.Env, f *loginFlags, name string) error {
	k, err := load(e, f.config)
	if err != nil {
		return err
	}
	srv, o, err := k.userServer(name)
	if err != nil {
		return err
	}
	principal, err := k.principal(e, f.as)
	if err != nil {
		return err
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	if err := k.open(ctx, e); err != nil {
		return err
	}
	src, err := k.source(srv, o)
	if err != nil {
		return fmt.Errorf("login %s: %w", name, err)
	}
	defer src.Close()
	s := &signIn{e: e, kept: k, flags: f, srv: srv, oauth: o, source: src, principal: principal}
	began := time.Now()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("login %s: %w", name, err)
	}
	return s.report(ctx, began)
}

// signIn is a sign-in of the command.
type signIn struct {
	e         *command.Env
	kept      *kept
	flags     *loginFlags
	srv       *config.Backend
	oauth     *config.OAuth
	source    *grant.Source
	principal string
	in        *grant.SignIn
}

// run signs the user in, and returns when the grant was made.
func (s *signIn) run(ctx context.Context) error {
	asks, perr := s.probe(ctx)
	if ctx.Err() != nil {
		return errInterrupted
	}
	l, uri, err := s.listen(ctx)
	if err == nil {
		s.in, err = s.source.Prepare(ctx, s.principal, grant.SignInOptions{RedirectURI: uri})
	}
	if l != nil {
		defer l.Close()
	}
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil && !asks:
		return s.notAsked(uri, perr, err)
	case err != nil:
		return s.notPrepared(uri, err)
	}
	c := newCallback(s.source, s.in)
	stop := func() {}
	if l != nil {
		stop = c.serve(l) //nolint:contextcheck // the page is sent also after ctx has ended
	}
	defer stop()
	s.show(ctx)
	return s.await(ctx, c)
}

// listen opens the listener of the redirect URI, or none if the configured port is in use
// and the address is pasted.
func (s *signIn) listen(ctx context.Context) (net.Listener, string, error) {
	var registered []string
	if s.oauth.ClientID == "" && s.oauth.CallbackPort == 0 {
		var err error
		if registered, err = s.source.RedirectURIs(ctx); err != nil {
			return nil, "", err
		}
	}
	l, uri, err := listen(ctx, s.oauth, registered)
	if err != nil && s.flags.noBrowser && s.oauth.CallbackPort != 0 {
		return nil, access.RedirectURI(s.oauth, s.oauth.CallbackPort), nil
	}
	return l, uri, err
}

// probe asks the server for a list without a token, so that the challenge of its refusal directs
// the discovery (MCP specification, Authorization Server Discovery). It reports whether there
// was one.
func (s *signIn) probe(ctx context.Context) (asks bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	header := make(http.Header)
	for name, value := range s.srv.Headers {
		header.Set(name, value.Reveal())
	}
	p := &probe{source: s.source}
	cfg := client.Config{Name: s.srv.Name, Header: header, Credentials: p, Logger: s.kept.log}
	dial := client.NewHTTP
	if s.srv.Transport() == config.TypeSSE {
		dial = client.NewSSE
	}
	c := dial(s.srv.URL, cfg)
	defer c.Close()
	req, err := target.NewRequest("tools/list", []byte("{}"))
	if err != nil {
		return false, err
	}
	_, err = c.Serve(ctx, req, target.NoCaller{})
	return p.asked.Load(), err
}

// notAsked returns the error of a server that has answered without a token, or not at all.
func (s *signIn) notAsked(uri string, probed, err error) error {
	check, ok := errors.AsType[*oauth.CheckError](err)
	switch {
	case !ok || check.Check != oauth.CheckNotFound:
		return s.notPrepared(uri, err)
	case probed == nil:
		return fmt.Errorf("the server does not ask for a sign-in: it answers without a token, and names no authorization server (if it does not list all of its tools, set oauth.issuer of %s)", configpath.Server(s.srv.Name))
	default:
		return fmt.Errorf("the server does not ask for a sign-in, and names no authorization server: %w (correct its url, or set oauth.issuer of %s)", probed, configpath.Server(s.srv.Name))
	}
}

// notPrepared returns the error of a sign-in that could not begin.
func (s *signIn) notPrepared(uri string, err error) error {
	check, ok := errors.AsType[*oauth.CheckError](err)
	own, isOwn := errors.AsType[*grant.Error](err)
	if !ok || check.Check != oauth.CheckRegistration || !isOwn {
		return withCause(err)
	}
	if u, perr := url.Parse(uri); perr == nil && u.Port() != "" && s.oauth.CallbackPort == 0 {
		return fmt.Errorf("%w, and oauth.callbackPort: %s beside it", own, u.Port()) // another time it would be another one
	}
	return own
}

// withCause appends the cause to the error of a grant, which alone is for clients.
func withCause(err error) error {
	own, ok := errors.AsType[*grant.Error](err)
	if !ok || own.Unwrap() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", own, own.Unwrap())
}

// show opens the browser, or prints the address.
func (s *signIn) show(ctx context.Context) {
	host := output.VisibleLine(hostOf(s.in.Issuer))
	if s.in.Previous != "" {
		s.e.PrintError(fmt.Sprintf("note: %s has another authorization server now: %s, before %s", s.srv.Name, host, hostOf(s.in.Previous)))
	}
	if s.flags.noBrowser {
		s.e.PrintError(fmt.Sprintf("to sign in at %s, open this address in a browser:", host))
		_ = s.e.PrintText(s.e.Stdout, s.in.URL+"\n")
		s.e.PrintError("if its last page is an error, paste the address of that page here:")
		return
	}
	if err := openBrowser(ctx, s.e, s.in.URL, "open the address in another one"); err != nil {
		s.e.PrintError(fmt.Sprintf("no browser was started: %v\nto sign in at %s, open this address: %s", err, host, s.in.URL))
		return
	}
	s.e.PrintError(fmt.Sprintf("signing in at %s in your browser; if none appears, open this address: %s", host, s.in.URL))
}

// await waits for the response.
func (s *signIn) await(ctx context.Context, c *callback) error {
	late := time.NewTimer(s.flags.wait)
	defer late.Stop()
	var pasted <-chan string
	if s.flags.noBrowser {
		pasted = s.read(ctx)
	}
	for {
		select {
		case <-c.ended:
			return s.outcome(c.err)
		case text, ok := <-pasted:
			if !ok {
				pasted = nil // the listener may receive it
				continue
			}
			s.paste(ctx, c, text)
		case <-late.C:
			if c.taken.Load() {
				continue
			}
			return fmt.Errorf("there was no sign-in within %v; run the command again, with --wait for more time", s.flags.wait)
		case <-ctx.Done():
			if c.taken.Load() { // its code is in use
				<-c.ended
				return s.outcome(c.err)
			}
			return errInterrupted
		}
	}
}

// read returns the lines of standard input, until its end or that of ctx.
func (s *signIn) read(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() { // ends with ctx, or with the input
		defer close(lines)
		in := io.LimitReader(s.e.Stdin, 64*maxPaste)
		for {
			line, err := command.ReadLine(ctx, in)
			if strings.TrimSpace(line) != "" {
				select {
				case lines <- strings.TrimSpace(line):
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// paste takes the address that a browser has ended at.
func (s *signIn) paste(ctx context.Context, c *callback, text string) {
	own, err := url.Parse(s.in.RedirectURI)
	u, perr := url.Parse(text)
	if err == nil && perr == nil && len(text) <= maxPaste && u.Scheme == own.Scheme && u.Host == own.Host && u.Path == own.Path {
		if query, err := url.ParseQuery(u.RawQuery); err == nil && !errors.Is(c.take(ctx, query), errOther) {
			return
		}
	}
	s.e.PrintError(fmt.Sprintf("that is not the address of this sign-in; paste the whole address of the last page, which begins with %s?", s.in.RedirectURI))
}

// outcome returns the error of a response.
func (s *signIn) outcome(err error) error {
	if oauth.HasCode(err, oauth.CodeAccessDenied) {
		return fmt.Errorf("the sign-in was declined at %s: %w", hostOf(s.in.Issuer), err)
	}
	if err != nil {
		return withCause(err)
	}
	return nil
}

// report prints the grant, and informs running gateways.
func (s *signIn) report(ctx context.Context, began time.Time) error {
	ctx = context.WithoutCancel(ctx)
	grants, err := s.kept.grantsOf(ctx, s.srv.Name, s.principal)
	if err != nil {
		return err
	}
	if len(grants) == 0 || grants[0].SignedIn.Before(began.Add(-time.Second)) {
		return fmt.Errorf("login %s: the access was given, and could not be kept; correct what the message above names, and run the command again", s.srv.Name)
	}
	c := credentialOf(grants[0])
	if err := printSignedIn(s.e, s.srv.Name, &c, false); err != nil {
		return err
	}
	tell(ctx, s.e, s.kept.src.Path, s.srv.Name)
	return nil
}

// probe is the Credentials of a request without a token.
type probe struct {
	source *grant.Source
	asked  atomic.Bool
}

// PerPrincipal reports false.
func (p *probe) PerPrincipal() bool { return false }

// For returns nothing.
func (p *probe) For(context.Context, *mcp.Request) (client.Credential, error) {
	return client.Credential{}, nil
}

// Refused lets the source keep the challenge.
func (p *probe) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	if _, ok := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges}); ok || r.Status == http.StatusUnauthorized {
		p.asked.Store(true)
		_ = p.source.Refused(ctx, req, sent, r) // that the user has to sign in is known
	}
	return client.ErrRefused
}
