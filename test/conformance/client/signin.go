// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/test/browser"
)

const (
	// redirect is where the authorization server sends the browser. Nothing listens there: the
	// browser is part of this program.
	redirect = "http://127.0.0.1:1/callback"

	// metadataURL is the client id for servers that read the metadata of a client from its id.
	// The suite knows it, and does not read it.
	metadataURL = "https://conformance-test.local/client-metadata.json"

	// maxSignIns bounds the sign-ins for one request. A server that always wants another one
	// is refused earlier by package grant.
	maxSignIns = 10
)

// newSource returns the credentials of the user at a server, in a vault in dir.
func newSource(server string, fixed bool, known *oauth.Registration, dir string) (*grant.Source, error) {
	c, err := oauth.New(oauth.Config{Backend: server, FixedEndpoints: fixed})
	if err != nil {
		return nil, err
	}
	folder, err := vault.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	v, err := vault.New(folder, [][]byte{[]byte(rand.Text() + rand.Text())}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	cfg := grant.SourceConfig{Backend: "suite", URL: server, OAuth: c, Vault: v, MetadataURL: metadataURL, FixedEndpoints: fixed, Anonymous: true, Optional: true}
	if known != nil {
		cfg.Client = *known
	}
	return grant.NewSource(cfg)
}

// signedIn calls f, and again after each sign-in of the user that f needs.
func signedIn[T any](ctx context.Context, source *grant.Source, f func() (T, error)) (T, error) {
	for range maxSignIns {
		got, err := f()
		missing, ok := errors.AsType[*grant.Missing](err)
		if !ok || source == nil {
			return got, err
		}
		if err := signIn(ctx, source, missing); err != nil {
			return got, err
		}
	}
	var none T
	return none, fmt.Errorf("more than %d sign-ins", maxSignIns)
}

// signIn signs the user in, in a browser.
func signIn(ctx context.Context, source *grant.Source, missing *grant.Missing) error {
	in, err := source.Prepare(ctx, missing.Principal, grant.SignInOptions{RedirectURI: redirect, Scopes: missing.Scopes})
	if err != nil {
		return err
	}
	answer, err := answerOf(ctx, in.URL)
	if err != nil {
		return err
	}
	code, err := in.Check(answer)
	if err != nil {
		return err
	}
	return source.Complete(ctx, in, code)
}

// answerOf opens an authorization request in a browser and returns the answer.
func answerOf(ctx context.Context, address string) (url.Values, error) {
	b := browser.New("user")
	b.Until = func(u *url.URL) bool { return strings.HasPrefix(u.String(), redirect) }
	page, err := b.SignIn(ctx, address)
	if err != nil {
		return nil, err
	}
	if page.Status != 0 {
		return nil, fmt.Errorf("the sign-in ended with %d", page.Status)
	}
	return page.URL.Query(), nil
}
