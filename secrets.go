// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"net/http"

	"github.com/signalbox-mcp/signalbox/internal/config"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// secretsOf returns what takes out of the edge's log whatever the configuration gives
// to any backend, and the tokens of clients. What is logged about one backend alone has that one's taken out
// where it is logged.
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
