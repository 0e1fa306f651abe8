// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A server that starts slowly, for example because it is being installed, is waited
// for, at most as long as configured.
func TestServerThatStartsSlowly(t *testing.T) {
	for within, want := range map[time.Duration]string{
		0:                `"content":[]`, // a minute
		2 * time.Minute:  `"content":[]`,
		40 * time.Second: "within 40s (limits.handshake)",
	} {
		t.Run(within.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := gatewaytest.ServerWithTools(false, "x")
				s.On["tools/call"] = gatewaytest.ResultHandler(`{"content":[]}`)
				slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body) // or the server would not detect that its client disconnects
					r.Body = io.NopCloser(bytes.NewReader(body))
					if r.Header.Get("Mcp-Session-Id") == "" {
						select {
						case <-time.After(50 * time.Second):
						case <-r.Context().Done():
							return
						}
					}
					s.ServeHTTP(w, r)
				})
				h := gatewaytest.Backends{"b": slow}.Open(t, func(cfg *config.Config) {
					cfg.Servers[0].Era = "legacy"
					cfg.Limits.Handshake = within
					cfg.Limits.CallIdle = 5 * time.Second // a start is not a call
				})
				time.Sleep(10 * time.Minute) // and attempts
				got := h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__x"}`), h.Legacy())
				if !strings.Contains(got.Body, want) {
					t.Errorf("with %v: %s, want %s in it", within, got.Body, want)
				}
			})
		})
	}
}
