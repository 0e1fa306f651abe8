// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
)

// NewLogout returns the command that signs a user out.
func NewLogout(e *command.Env) *cobra.Command {
	var file, as, at string
	cmd := &cobra.Command{
		Use:   "logout NAME",
		Short: "Revoke and delete the access of a user to a server",
		Long: `Revoke the access of a user to a server at its authorization server (RFC 7009), and
delete it here. It is deleted even if it cannot be revoked; the exit code is 1 then, unless
the authorization server has no way to revoke it. Running gateways stop using it.

With --url it is the access that the user of the token has at the gateway there.`,
		Args:              command.ArgsBetween(1, 1, "the NAME of a server"),
		ValidArgsFunction: completeServers(e, &file),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, done := e.Interruptible(cmd.Context())
			defer done()
			if at != "" {
				return logoutAt(ctx, e, at, file, as, args[0])
			}
			return logout(ctx, e, file, as, args[0])
		},
	}
	source.Flag(cmd, &file)
	asFlag(cmd, &as)
	urlFlag(cmd, &at)
	return cmd
}

// logout revokes and deletes the grants of a user.
func logout(ctx context.Context, e *command.Env, flag, as, name string) error {
	k, err := load(e, flag)
	if err != nil {
		return err
	}
	principal, err := k.principal(e, as)
	if err != nil {
		return err
	}
	if err := k.open(ctx, e); err != nil {
		return err
	}
	grants, err := k.grantsOf(ctx, name, principal)
	if err != nil {
		return err
	}
	srv, unknown := k.src.Server(k.cfg, name)
	if unknown == nil && srv.OAuth != nil && srv.OAuth.GrantType() == config.GrantIDJAG && !srv.OAuth.IsGateway() {
		return k.forgetIDToken(ctx, e, name, principal)
	}
	switch {
	case len(grants) == 0 && unknown != nil:
		return command.Usagef("%w", unknown)
	case len(grants) == 0:
		return e.PrintText(e.Stdout, name+": not signed in, nothing to delete\n")
	case unknown != nil || srv.URL == "" || srv.Disabled:
		// The grants of an entry that was removed are still valid.
		srv = &config.Backend{Name: name, URL: grants[0].URL}
	}
	o := srv.OAuth
	if o == nil || o.IsGateway() {
		o = &config.OAuth{}
	}
	src, err := k.source(srv, o)
	if err != nil {
		return fmt.Errorf("logout %s: %w", name, err)
	}
	defer src.Close()
	n, err := src.SignOut(ctx, principal)
	problems := parts(err)
	if n > 0 {
		notifyOfLogout(ctx, e, k.src.Path)
		text := name + ": signed out"
		if len(problems) == 0 {
			text += ", and revoked at " + output.VisibleLine(hostOf(grants[0].Issuer))
		}
		if err := e.PrintText(e.Stdout, text+"\n"); err != nil {
			return err
		}
	}
	var failed []error
	for _, p := range problems {
		if oauth.IsNoRevocation(p) {
			printNoRevocation(e, output.VisibleLine(hostOf(grants[0].Issuer)))
			continue
		}
		failed = append(failed, fmt.Errorf("logout %s: %w", name, p))
	}
	return errors.Join(failed...)
}

// forgetIDToken deletes the ID token of a user, with which the gateway gets the access to a server.
func (k *kept) forgetIDToken(ctx context.Context, e *command.Env, name, principal string) error {
	n, err := oidc.Delete(ctx, k.vault, principal)
	if n > 0 {
		notifyOfLogout(ctx, e, k.src.Path)
	}
	switch {
	case err != nil:
		return fmt.Errorf("logout %s: %w", name, err)
	case n == 0:
		return e.PrintText(e.Stdout, name+": not signed in, nothing to delete\n")
	}
	return e.PrintText(e.Stdout, name+": signed out, as at all servers that the identity provider vouches for you at\n")
}

// parts returns the errors that are joined in err.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// completeServers completes the names of servers with a URL.
func completeServers(e *command.Env, flag *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		src := source.Find(e, *flag)
		if !src.HasFile() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cfg, err := config.Load(src.Path, e.LookupEnv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for i := range cfg.Servers {
			if cfg.Servers[i].URL != "" && !cfg.Servers[i].Disabled {
				names = append(names, cfg.Servers[i].Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
