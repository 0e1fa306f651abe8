// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access makes what is needed for the access of users to a server, from its entry in
// a configuration: the vault with their grants, and the settings of a grant.Source. The gateway
// and the commands that change grants use the same.
package access

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
)

// Vault returns the options of the vault of a configuration. state is the state folder of the
// configuration, or "" if it has none. The error is that of a vault without a folder.
func Vault(cfg *config.Config, state string, log *slog.Logger) (vault.Options, error) {
	c := &cfg.Credentials
	if state == "" && (c.Dir == "" || len(c.Keys) == 0) {
		return vault.Options{}, errors.New("there is no folder for the credentials of users: set credentials.dir and credentials.keys")
	}
	keys := make([][]byte, len(c.Keys))
	for i, key := range c.Keys {
		keys[i] = []byte(key.Reveal())
	}
	return vault.NewOptions(c.Dir, keys, state, log), nil
}

// Orphans returns a problem if credentials of users are kept that the keys of the configuration do not
// open, unless the configuration allows that.
func Orphans(ctx context.Context, cfg *config.Config, state string) error {
	if cfg.Credentials.Orphans == config.OrphansAllow {
		return nil
	}
	options, err := Vault(cfg, state, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil //nolint:nilerr // none are kept
	}
	found, err := vault.FindOrphans(ctx, options)
	if err != nil || found == nil {
		return nil //nolint:nilerr // the vault reports a folder that cannot be used
	}
	n, key := found.Note(), "credentials.keys"
	if len(cfg.Credentials.Keys) == 0 {
		key = "credentials"
	}
	return config.Problems{cfg.Problem(key, n.Text, n.Cure)}
}

// OpenVault opens the vault of a configuration.
func OpenVault(ctx context.Context, cfg *config.Config, state string, log *slog.Logger) (*vault.Vault, error) {
	options, err := Vault(cfg, state, log)
	if err != nil {
		return nil, err
	}
	opened, err := vault.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	return opened.Vault, nil
}

// Source returns the settings for the grants of users at a server. o is that of its entry, or
// empty if the entry has none. The caller sets the vault, and what does not depend on the entry.
func Source(srv *config.Backend, o *config.OAuth) (grant.SourceConfig, error) {
	isFixed := o.Endpoints == config.Endpoints20250326
	requests, err := oauth.New(oauth.Config{Backend: srv.URL, Issuer: o.Issuer, FixedEndpoints: isFixed})
	if err != nil {
		return grant.SourceConfig{}, err
	}
	cfg := grant.SourceConfig{
		Backend: srv.Name, URL: srv.URL, OAuth: requests, Issuer: o.Issuer, FixedEndpoints: isFixed,
		Scopes: o.Scopes, Resource: Resource(o), Parameters: Parameters(o),
	}
	if cfg.Client, err = Client(o.Issuer, o.ClientID, o.ClientSecret, o.ClientKey); err != nil {
		return grant.SourceConfig{}, err
	}
	if o.ClientID != "" && o.CallbackPort != 0 {
		cfg.RedirectURI = RedirectURI(o, o.CallbackPort)
	}
	if o.Audience != "" {
		cfg.Parameters["audience"] = o.Audience
	}
	return cfg, nil
}

// Client returns a configured client at an authorization server.
func Client(issuer, id string, secret, key config.Secret) (oauth.Registration, error) {
	r := oauth.Registration{Issuer: issuer, ClientID: id, Secret: secret.Token()}
	if key.IsZero() {
		return r, nil
	}
	var err error
	r.Key, err = oauth.ParseSigningKey([]byte(key.Reveal()))
	return r, err
}

// Resource returns what tokens are requested for, or "" if that is found out.
func Resource(o *config.OAuth) string {
	if o.Resource == config.ResourceAuto {
		return ""
	}
	return o.Resource
}

// Parameters returns the configured parameters of requests for tokens, which the caller may change.
func Parameters(o *config.OAuth) map[string]string {
	all := make(map[string]string, len(o.Parameters))
	for name, value := range o.Parameters {
		all[name] = value.Reveal()
	}
	return all
}

// CallbackPath is the path of the redirect URI on the machine of a user, as the files of clients
// imply it.
const CallbackPath = "/callback"

// RedirectURI returns the redirect URI on the machine of a user, with a port.
func RedirectURI(o *config.OAuth, port int) string {
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(cmp.Or(o.CallbackHost, "127.0.0.1"), strconv.Itoa(port)), Path: CallbackPath}
	return u.String()
}

// HasAuthorization reports whether the entry of a server has a credential of its own.
func HasAuthorization(srv *config.Backend) bool {
	for name := range srv.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return true
		}
	}
	return false
}
