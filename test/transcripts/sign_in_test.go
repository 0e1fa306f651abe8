// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A backend that is locked refuses calls without the token of a user. Its authorization server is
// not on the network of a transcript: the user signs in with another program, which shares the
// vault with the gateway.
const (
	grantedToken = "granted"
	vaultKey     = "the key of the vault of a transcript"
)

// lockable returns the HTTP handler of a backend that may be locked.
func (b *backend) lockable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := userOf(r)
		switch locked, own := b.isLocked(); {
		case own && user == nil:
			refuse(w)
			return
		case !locked:
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if isCall(body) && r.Header.Get("Authorization") != "Bearer "+grantedToken {
			refuse(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
}

// isLocked reports whether the backend refuses calls, and all requests, without the token of a user.
func (b *backend) isLocked() (calls, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.locked, b.own != nil
}

// userOf returns the user of the token of a request, or nil for one without, or with that of the
// only user.
func userOf(r *http.Request) (*mcp.Identity, error) {
	if user, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+grantedToken+"-"); ok {
		return &mcp.Identity{Principal: user}, nil
	}
	return nil, nil //nolint:nilnil // as documented
}

// isPrincipal reports whether the gateway knows a token of a client of that name.
func (w *world) isPrincipal(name string) bool {
	for _, c := range w.d.configs {
		if slices.ContainsFunc(c.Auth.Tokens, func(t config.Token) bool { return t.Principal == name }) {
			return true
		}
	}
	return false
}

var callMethods = regexp.MustCompile(`"method":"(tools/call|prompts/get|resources/read)"`)

func isCall(body []byte) bool { return callMethods.Match(body) }

// openVault returns the vault of the gateway, as another program sees it.
func (w *world) openVault() *vault.Opened {
	v, err := vault.Open(w.t.Context(), vault.Options{
		Folder: filepath.Join(w.folder, "credentials"), Keys: [][]byte{[]byte(vaultKey)}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// grant signs the user in at a backend, or a principal if that is not "".
func (w *world) grant(backend, principal string) {
	url, token := "http://"+backend+"/mcp", grantedToken
	if principal != "" {
		token += "-" + principal
	}
	err := w.openVault().Save(w.t.Context(), &vault.Grant{
		GrantKey: vault.GrantKey{Principal: principal, Backend: backend, Issuer: "https://as.example", Resource: url, Client: "c"}, URL: url,
		AccessToken: mcp.NewToken(token), TokenType: "Bearer", Expires: time.Now().Add(time.Hour), SignedIn: time.Now(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// ungrant signs a principal out at a backend.
func (w *world) ungrant(backend, principal string) {
	v := w.openVault()
	grants, err := v.Grants(w.t.Context(), principal, backend)
	for _, g := range grants {
		err = errors.Join(err, v.Delete(w.t.Context(), g))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// scrubSignIn hides the id of a sign-in, and of its elicitation in an error.
func scrubSignIn(text string) string {
	text = signInID.ReplaceAllString(text, "/signin/$$signin")
	return signInElicitation.ReplaceAllString(text, `"elicitationId":"$$elicitation"`)
}

var (
	signInID          = regexp.MustCompile(`/signin/[A-Z2-7]{26}`)
	signInElicitation = regexp.MustCompile(`"elicitationId":"[A-Z2-7]{26}"`)
)
