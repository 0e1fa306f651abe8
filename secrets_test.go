// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// echo is a server that refuses all requests and repeats their headers in the error.
type echo struct{}

func (echo) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := mcp.Parse(body, mcp.Limits{})
	if err != nil {
		return nil, err
	}
	id := m.ID
	answer := jsonrpc.AppendError(nil, id, mcp.Errorf(-32000, "unknown: %s", r.Header.Get("Authorization")))
	return &http.Response{
		StatusCode: http.StatusUnauthorized, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(answer))), Request: r,
	}, nil
}

// The log contains nothing of a backend's credentials, even if the backend repeats
// them: an error of the backend may contain them, and is logged.
//
// X9- 2026-07-28 server/utilities/logging: "Credentials or secrets"
func TestLogHasNoCredentialsOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := config.Config{Servers: []config.Backend{{
			Name: "p", URL: "http://p.example/mcp", Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer swordfish-1")},
		}}}
		g := gatewaytest.New(t, cfg, signalbox.Options{
			Transport: echo{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		post(g, strings.Replace(initializeMessage, "initialize", "tools/list", 1))
		time.Sleep(time.Minute)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "[redacted]") || strings.Contains(text, "swordfish") {
			t.Errorf("logged %s", text)
		}
	})
}
