// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
)

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// While no user has signed in, a server that refuses requests without a token gets few of them: the
// gateway looks for a sign-in by another process, and not for another answer.
func TestServerIsNotAskedAgainWithoutToken(t *testing.T) {
	for name, more := range map[string]string{
		"one user":      keyed,
		"several users": withTokens,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var asked, tokens atomic.Int64
				refuses := roundTrip(func(r *http.Request) (*http.Response, error) {
					asked.Add(1)
					if r.Header.Get("Authorization") != "" {
						tokens.Add(1)
					}
					if r.Body != nil {
						r.Body.Close()
					}
					return &http.Response{
						StatusCode: http.StatusUnauthorized, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
						Header: http.Header{"Www-Authenticate": {"Bearer"}}, Body: io.NopCloser(strings.NewReader("")),
					}, nil
				})
				env := func(name string) (string, bool) {
					return "token-of-" + name + "-0123456789", strings.HasPrefix(name, "T_")
				}
				cfg, err := config.Parse("x.json", []byte(`{"mcpServers": {"crm": {"url": "http://127.0.0.1:9/mcp"`+more+`}`), env)
				if err != nil {
					t.Fatal(err)
				}
				g, err := signalbox.New(*cfg, signalbox.Options{
					Transport: refuses, StateFolder: folder, Logger: slog.New(slog.DiscardHandler),
					SignInPages: func() (string, func(), error) { return "http://127.0.0.1:7", func() {}, nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				time.Sleep(time.Hour)
				synctest.Wait()
				b := g.Status().Backends[0]
				if n := asked.Load(); n == 0 || n > 20 || tokens.Load() != 0 {
					t.Errorf("%d requests in an hour, %d with a token", n, tokens.Load())
				}
				if b.State != "down" || b.Code != "SB_AUTH_SIGN_IN" {
					t.Errorf("state %s, code %s: %s", b.State, b.Code, b.Reason)
				}
				// Who changes the server asks for another try.
				before := asked.Load()
				if _, err := g.RetryBackend(t.Context(), "crm"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if asked.Load() == before {
					t.Error("no request after Retry")
				}
			})
		})
	}
}
