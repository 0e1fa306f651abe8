// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"net/http"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// secretsOf returns a Redactor for the edge's log. It removes the secrets of all
// backends and the tokens of clients. Records about one backend are redacted by that
// backend's own.
func secretsOf(cfg *config.Config) *redact.Redactor {
	headers := make(http.Header)
	var env, urls []string
	for _, srv := range cfg.Servers {
		for name, values := range header(srv.Headers) {
			headers[name] = append(headers[name], values...)
		}
		env = append(env, environ(srv.Env)...)
		urls = append(urls, srv.URL)
	}
	for _, t := range cfg.Auth.Tokens {
		env = append(env, "TOKEN="+t.Value.Reveal())
	}
	return redact.New(headers, env, urls...)
}
