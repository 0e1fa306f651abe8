// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"time"

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
		if !b.isLocked() {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if isCall(body) && r.Header.Get("Authorization") != "Bearer "+grantedToken {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (b *backend) isLocked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.locked
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

// grant signs the user in at a backend.
func (w *world) grant(backend string) {
	url := "http://" + backend + "/mcp"
	err := w.openVault().Save(w.t.Context(), &vault.Grant{
		GrantKey: vault.GrantKey{Backend: backend, Issuer: "https://as.example", Resource: url, Client: "c"}, URL: url,
		AccessToken: mcp.NewToken(grantedToken), TokenType: "Bearer", Expires: time.Now().Add(time.Hour), SignedIn: time.Now(),
	})
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
