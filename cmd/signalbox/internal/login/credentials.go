// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// NewCredentials returns the command that lists what authorization servers have given.
func NewCredentials(e *command.Env) *cobra.Command {
	var file, at string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "List the access that authorization servers have given",
		Long: `List the access that authorization servers have given: for which server and user, by
which authorization server, its scopes, and until when. No token is printed.

The access of users is kept from one gateway to the next. What a gateway has obtained for
itself ("as: gateway") is in its memory, and listed if one serves the configuration now.

With --url the list is of the access that the user of the token has at the gateway there.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, done := e.Interruptible(cmd.Context())
			defer done()
			if at != "" {
				return listAt(ctx, e, at, file, asJSON)
			}
			return listCredentials(ctx, e, file, asJSON)
		},
	}
	source.Flag(cmd, &file)
	urlFlag(cmd, &at)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

// credential is what is listed of a grant.
type credential struct {
	Backend   string    `json:"backend"`
	Gateway   bool      `json:"gateway,omitzero"` // it is the gateway's own
	IDToken   bool      `json:"idToken,omitzero"` // it proves the principal, and is for no backend
	Principal string    `json:"principal"`        // "" also for the only user without auth
	Issuer    string    `json:"issuer"`
	Scopes    []string  `json:"scopes"`
	Until     time.Time `json:"until,omitzero"` // the end of the token
	Renewed   bool      `json:"renewed"`        // then it is renewed
	SignedIn  time.Time `json:"signedIn,omitzero"`
}

func credentialOf(g *vault.Grant) credential {
	return credential{
		Backend: g.Backend, Principal: g.Principal, Issuer: g.Issuer, Scopes: append([]string{}, g.Scopes...),
		Until: g.Expires, Renewed: !g.RefreshToken.IsZero(), SignedIn: g.SignedIn,
	}
}

// listCredentials prints the grants in the vault, and those of running gateways.
func listCredentials(ctx context.Context, e *command.Env, flag string, asJSON bool) error {
	k, err := load(e, flag)
	if err != nil {
		return err
	}
	options, err := access.Vault(k.cfg, k.state, k.log)
	if err != nil {
		return err
	}
	found, err := vault.Inspect(ctx, options)
	if err != nil {
		return err
	}
	list := []credential{}
	for _, g := range found.Contents.Grants {
		list = append(list, credentialOf(g))
	}
	for _, t := range found.Contents.IDTokens {
		list = append(list, credential{
			IDToken: true, Principal: t.Principal, Issuer: t.Issuer, Scopes: []string{}, Until: t.Expires, SignedIn: t.SignedIn,
		})
	}
	list = append(list, ownAccess(ctx, e, k.src.Path)...)
	slices.SortStableFunc(list, func(a, b credential) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Principal, b.Principal))
	})
	if err := printCredentials(e, list, asJSON); err != nil {
		return err
	}
	for _, n := range found.Notes() {
		text := "note: " + n.Text
		if n.Cure != "" {
			text += " (" + n.Cure + ")"
		}
		e.PrintError(text)
	}
	return nil
}

// ownAccess returns what the running gateways of a file have obtained for themselves.
func ownAccess(ctx context.Context, e *command.Env, file string) (list []credential) {
	gateways, err := control.Running(ctx, e, file)
	defer control.CloseIdle(gateways)
	if err != nil {
		e.PrintError(fmt.Sprintf("note: %v", err))
	}
	for _, gateway := range gateways {
		s, err := control.StatusAt(ctx, gateway.Socket)
		if err != nil {
			e.PrintError(fmt.Sprintf("note: process %d: %v", gateway.Process, err))
			continue
		}
		for i := range s.Backends {
			b := &s.Backends[i]
			if o := b.OAuth; o != nil && o.As == config.AsGateway && !o.Until.IsZero() {
				list = append(list, credential{
					Backend: b.Name, Gateway: true, Issuer: o.Issuer, Scopes: append([]string{}, o.Scopes...),
					Until: o.Until, Renewed: true, SignedIn: o.Requested,
				})
			}
		}
	}
	return list
}

// printCredentials prints a list.
func printCredentials(e *command.Env, list []credential, asJSON bool) error {
	if asJSON {
		return e.PrintValue(map[string]any{"credentials": list})
	}
	if len(list) == 0 {
		return e.PrintText(e.Stdout, "no credentials; 'signalbox login NAME' signs in\n")
	}
	now := time.Now()
	rows := [][]string{{"BACKEND", "PRINCIPAL", "ISSUER", "SCOPES", "UNTIL"}}
	for _, c := range list {
		principal := cmp.Or(c.Principal, "-")
		if c.Gateway {
			principal = "(the gateway)"
		}
		backend := c.Backend
		if c.IDToken {
			backend = "(ID token)"
		}
		rows = append(rows, []string{
			backend, principal, c.Issuer, cmp.Or(scopesText(c.Scopes), "-"), lifeText(c.Until, c.Renewed, now),
		})
	}
	return e.PrintTable(rows)
}

// lifeText describes until when a token is valid.
func lifeText(until time.Time, isRenewed bool, now time.Time) string {
	at := until.Local().Format("2006-01-02 15:04")
	switch {
	case isRenewed && until.IsZero():
		return "renewed when it ends"
	case isRenewed:
		return at + ", then renewed"
	case until.IsZero():
		return "unknown"
	case until.Before(now):
		return "ended " + at
	default:
		return at
	}
}

const maxScopes = 200 // characters in a line

// scopesText returns scopes for a line.
func scopesText(scopes []string) string { return output.Shorten(strings.Join(scopes, " "), maxScopes) }

// hostOf returns the host of an issuer.
func hostOf(issuer string) string {
	if u, err := url.Parse(issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return issuer
}
