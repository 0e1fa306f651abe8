// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"net/http"
	"regexp"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

// newWatch returns the watch of a world: the tokens of clients must not be in the log, at any
// level, in the state, in what backends receive, and in what the transcript shows. A gateway
// without auth gets a token all the same.
func (w *world) newWatch() *canary.Watch {
	watch := canary.NewWatch(w.t)
	watch.Add(w.t, "token of a client", canary.Token)
	for _, token := range w.d.config.Auth.Tokens {
		watch.Add(w.t, "token of "+token.Principal, token.Value.Reveal())
	}
	w.t.Cleanup(func() {
		watch.Files(w.t, w.folder)
		if file := w.d.config.Audit.File; file != "" {
			watch.Files(w.t, file)
		}
	})
	return watch
}

// authorized returns what serves the requests of clients.
func (w *world) authorized(h http.HandlerFunc) http.Handler {
	if w.d.config.Auth.IsZero() {
		return canary.Authorized(h)
	}
	return h
}

// tokenOf matches a token as transcripts have it.
var tokenOf = regexp.MustCompile(`value-of-\w+`)

// longToken returns the token itself, which differs from all other text.
func longToken(short string) string { return short + "-canary-5e0b27c9d8146fa3" }

// withTokens replaces the tokens in a line of a transcript by those that are sent.
func (w *world) withTokens(line string) string {
	return tokenOf.ReplaceAllStringFunc(line, func(short string) string {
		token := longToken(short)
		if w.d.config.Auth.IsZero() {
			return token
		}
		w.watch.Add(w.t, "token "+short, token)
		return token
	})
}
