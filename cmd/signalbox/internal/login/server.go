// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// kept is a configuration, and the vault with the grants of its servers.
type kept struct {
	src   source.Source
	cfg   *config.Config
	state string // the state folder, or ""
	vault *vault.Vault
	log   *slog.Logger
}

// load reads the configuration of a command.
func load(e *command.Env, flag string) (*kept, error) {
	src, err := source.FindFile(e, flag)
	if err != nil {
		return nil, err
	}
	cfg, err := src.Load()
	if err != nil {
		return nil, err
	}
	return &kept{src: src, cfg: cfg, state: src.StateFolder(e), log: slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}, nil
}

// open opens the vault.
func (k *kept) open(ctx context.Context, e *command.Env) error {
	if k.state != "" {
		if _, err := source.MakeStateFolder(e, k.src.Path); err != nil {
			return err
		}
	}
	var err error
	k.vault, err = access.OpenVault(ctx, k.cfg, k.state, k.log)
	return err
}

// userServer returns the entry of a server that users sign in at, with its oauth, which may be
// implied.
func (k *kept) userServer(name string) (*config.Backend, *config.OAuth, error) {
	srv, err := k.src.Server(k.cfg, name)
	if err != nil {
		return nil, nil, command.Usagef("%w", err)
	}
	entry := configpath.Server(name)
	refused := func(format string, args ...any) (*config.Backend, *config.OAuth, error) {
		return nil, nil, fmt.Errorf("%s: %s: %s", k.src.Path, entry, fmt.Sprintf(format, args...))
	}
	switch o := srv.OAuth; {
	case srv.Disabled:
		return refused("the server is disabled; 'signalbox enable %s' enables it", name)
	case srv.URL == "":
		return refused("there is no url: it is a program on this machine, which needs no sign-in of the gateway; give it what it needs as env")
	case access.HasAuthorization(srv):
		return refused("it has an Authorization header, which is sent instead of the token of a sign-in; remove it from headers to sign in")
	case srv.HeadersHelper != nil:
		return refused("its headersHelper gives the credential; remove that to sign in")
	case o == nil && !k.cfg.Auth.IsZero():
		return refused("it has no oauth, which callers with auth need to be told apart; add 'oauth: {}' to it")
	case o == nil && !k.cfg.Effective().IsLocal():
		return refused("it has no oauth, which it needs because other machines reach this gateway; add 'oauth: {}' to it")
	case o == nil:
		return srv, &config.OAuth{}, nil
	case o.IsGateway():
		return refused(`with "as: gateway" the gateway gets its own access, and no user signs in; if that fails, 'signalbox status' has the reason`)
	case o.GrantType() != config.GrantCode:
		return refused("with the grant %s the token of each caller is exchanged, and no user signs in", o.GrantType())
	default:
		return srv, o, nil
	}
}

// source returns the grants of a server. The caller closes it.
func (k *kept) source(srv *config.Backend, o *config.OAuth) (*grant.Source, error) {
	cfg, err := access.Source(srv, o)
	if err != nil {
		return nil, err
	}
	cfg.Vault, cfg.Logger, cfg.Anonymous = k.vault, k.log, k.cfg.Auth.IsZero()
	return grant.NewSource(cfg)
}

// principal returns the user that a command is for: that of a flag, or the only one.
func (k *kept) principal(e *command.Env, as string) (string, error) {
	var names []string
	for _, t := range k.cfg.Auth.Tokens {
		if !slices.Contains(names, t.Principal) {
			names = append(names, t.Principal)
		}
	}
	var forms []string
	for _, issuer := range k.cfg.Auth.Issuers {
		forms = append(forms, issuer.Name+":...")
	}
	isKnown := func() bool {
		name, _, ok := strings.Cut(as, ":")
		return slices.Contains(names, as) || ok && slices.Contains(forms, name+":...")
	}
	switch {
	case as == "" && k.cfg.Auth.IsZero():
		return "", nil
	case k.cfg.Auth.IsZero():
		return "", command.Usagef("--as is for a configuration with auth; %s has none, so that all callers are one user", k.src.Path)
	case as == "" && len(names) == 1 && forms == nil:
		return names[0], nil
	case as == "":
		return "", command.Usagef("the configuration has auth: name the user with --as, as one of %s", strings.Join(append(names, forms...), ", "))
	case !isKnown():
		e.PrintError(fmt.Sprintf("note: no credential in auth has the principal %q; it is that of 'signalbox serve --stdio --as %[1]s'", as))
	}
	return as, nil
}

// grantsOf returns the grants of a principal at a server, the newest first.
func (k *kept) grantsOf(ctx context.Context, name, principal string) ([]*vault.Grant, error) {
	grants, err := k.vault.Grants(ctx, principal, name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(grants, func(a, b *vault.Grant) int { return b.SignedIn.Compare(a.SignedIn) })
	return grants, nil
}

// errInterrupted is the error of a command that a signal has ended.
var errInterrupted = errors.New("interrupted; nothing was changed")
