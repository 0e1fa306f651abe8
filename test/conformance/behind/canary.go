// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

// withToken starts a proxy before the gateway, with which the client sends a token that the
// gateway does not ask for. It returns its address.
func withToken(gateway string) (address string, stop func(), err error) {
	to, err := url.Parse(gateway)
	if err != nil {
		return "", nil, err
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = to.Scheme, to.Host, to.Host
			r.Out.Header.Set("Authorization", "Bearer "+canary.Token)
		},
		// A client may leave at any time.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	server := httptest.NewServer(proxy)
	stop = func() {
		server.CloseClientConnections()
		server.Close()
	}
	return server.URL + to.Path, stop, nil
}

// issued is in each token and code of the suite's authorization server, which are too short to be
// secrets of a set.
func issued() []string { return []string{"test-token", "test-auth-code"} }

// leaks returns an error for each secret in what the gateway has written: in its output, with the
// log at level debug, and in its state.
func (gw *gateway) leaks() error {
	var secrets canary.Set
	if err := secrets.Put("token of the client", canary.Token); err != nil {
		return err
	}
	given := make(map[string]any)
	if text := os.Getenv(envContext); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return fmt.Errorf("%s: %w", envContext, err)
		}
	}
	for _, name := range []string{"client_secret", "private_key_pem", "valid_jwt"} {
		text, _ := given[name].(string)
		if len(text) < canary.Shortest {
			continue
		}
		if err := secrets.Put(name, text); err != nil {
			return err
		}
	}
	found, err := secrets.ScanFiles(gw.state)
	all := []error{err}
	for _, leak := range slices.Concat(found, secrets.Scan("output", gw.output.String())) {
		all = append(all, fmt.Errorf("a secret has leaked: %s", leak))
	}
	for _, mark := range issued() {
		if strings.Contains(gw.output.String(), mark) {
			all = append(all, fmt.Errorf("output: %q of the authorization server", mark))
		}
	}
	return errors.Join(all...)
}

// envLeak is the environment variable with which a test has a secret leak, to see that it is found: "token", the one
// that the client sends, or "issued", one of the suite's, in the output, or "state", the former in the state folder.
const envLeak = "BEHIND_LEAK"

// leakingServer returns the entry of a server that only writes a secret, or nil. What a server writes to its standard
// error is in the log of the gateway.
func leakingServer(state string) map[string]any {
	const script = `mkdir -p "$2"; echo "$0" >"$1"; exec cat`
	secret, file := canary.Token, "/dev/stderr" //nolint:gosec // a canary, and no credential
	switch os.Getenv(envLeak) {
	case "token":
	case "issued":
		secret = issued()[0]
	case "state":
		file = filepath.Join(state, "leaked")
	default:
		return nil
	}
	return map[string]any{"command": "sh", "args": []string{"-c", script, secret, file, state}}
}
