// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// Validate checks a Config as a whole, independent of whether it is from a file, was changed
// by a flag, or was made by a program. The error is Problems with everything that is wrong,
// with paths but without positions.
func (c *Config) Validate() error {
	r := new(reader)
	c.check(r)
	return r.problems.orNil()
}

// check adds the problems and notes of the Config to those of reading it, if it is from a
// file.
func (c *Config) check(r *reader) {
	for _, check := range []func(*Config, *reader){
		checkListen, checkPath, checkPublicURL, checkHosts, checkOrigins,
		checkTLS, checkTokens, checkIssuers, checkIntrospection, checkCertificates, checkProxy, checkBrowser,
		checkSealingKeys, checkWords, checkLimits, checkServers, checkPrefixes, checkProfiles, checkPins, checkApps, checkResults,
		checkPolicy, checkFilterRules, checkQuotas, checkOperators, checkUsers, checkPageUsers, checkExchanges, checkVouchedUsers,
	} {
		check(c, r)
	}
}

// checkListen rejects an invalid address, and one beyond loopback without authentication.
func checkListen(c *Config, r *reader) {
	p := place{}.key("listen")
	if c.Listen == "" || r.has(p) {
		return
	}
	// Only the form is checked. Whether a name resolves or a port is free is known when
	// listening, and may change.
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		r.report(p, `write host:port, such as "127.0.0.1:7777"`, "%q is not an address", p.name)
		return
	}
	// Names of ports depend on a table of the machine, and are not accepted.
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		r.report(p, "0 takes a free one", "%q needs a port from 0 to 65535", p.name)
	}
	auth, allow := place{}.key("auth"), place{}.key("allowUnauthenticated")
	if c.isPublic() && c.Auth.IsZero() && !c.AllowUnauthenticated && !r.hasOrMeant(auth, auth.key("tokens"), auth.key("issuers"), auth.key("certificates"), auth.key("proxy"), allow) {
		const hint = `add "auth", listen on 127.0.0.1, or write "allowUnauthenticated: true" if that is meant`
		r.report(p, hint, "%q reaches beyond this machine, so that anyone on the network could use every server", p.name)
	}
}

// IsLocal reports whether only this machine can reach the listener.
func (c *Config) IsLocal() bool { return !c.isPublic() }

// isPublic reports whether other machines can reach the listener, if its address is
// valid.
func (c *Config) isPublic() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && !isLoopback(host)
}

// isLoopback reports whether only this machine reaches a listener on host. Names other than
// localhost may resolve to any address.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	// An IPv4 address may be written as IPv6.
	return err == nil && addr.Unmap().IsLoopback()
}

func checkPath(c *Config, r *reader) {
	p := place{}.key("path")
	switch {
	case c.Path == "":
	// Characters that a router, a proxy or a client would rewrite.
	case c.Path[0] != '/' || strings.ContainsAny(c.Path, "?#%{} ") || path.Clean(c.Path) != c.Path:
		r.report(p, `such as "/mcp"`, "%q must be a plain URL path that begins with /", p.name)
	case slices.Contains(operations(), c.Path):
		r.report(p, "", "%q is %s, where the gateway serves its operations", p.name, c.Path)
	case c.Path == ssePath:
		r.report(p, "", "%q is %s, where clients of 2024-11-05 connect", p.name, c.Path)
	case c.Path == wellKnownPath || strings.HasPrefix(c.Path, wellKnownPath+"/"):
		r.report(p, "", "%q is below %s, where the gateway describes itself", p.name, wellKnownPath)
	}
	for _, reserved := range signInPaths() {
		if c.Path == reserved || strings.HasPrefix(c.Path, reserved+"/") {
			r.report(p, `such as "/mcp"`, "%q is below %s, where users sign in", p.name, reserved)
		}
	}
}

// operations returns the paths that are reserved for operations on the same listener.
func operations() []string { return []string{"/healthz", "/readyz", "/status", "/metrics"} }

// ssePath is reserved for clients of 2024-11-05.
const ssePath = "/sse"

// wellKnownPath is reserved for metadata (RFC 8615).
const wellKnownPath = "/.well-known"

// signInPaths returns the paths that are reserved, with all below them, for sign-ins.
func signInPaths() []string { return []string{"/signin", "/oauth"} }

func checkHosts(c *Config, r *reader) {
	list := place{}.key("allowedHosts")
	for i, host := range c.AllowedHosts {
		if r.has(list.item(i)) {
			continue
		}
		// A valid host is unchanged by parsing a URL with it.
		u, err := url.Parse("http://" + host + "/")
		if host == "" || err != nil || u.Host != host || u.Path != "/" || strings.Contains(host, "*") {
			r.report(list.item(i), `write host or host:port, such as "mcp.example.com"`, "%q is not a host", list.item(i).name)
		}
	}
	checkTwice(c.AllowedHosts, list, r)
}

func checkOrigins(c *Config, r *reader) {
	list := place{}.key("allowedOrigins")
	for i, origin := range c.AllowedOrigins {
		if r.has(list.item(i)) {
			continue
		}
		u, err := url.Parse(origin)
		// Browsers send no other form. A * would accept every page of the web, and null
		// every local file.
		if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.Contains(origin, "*") {
			r.report(list.item(i), `write scheme://host, such as "https://app.example.com"`, "%q is not an origin", list.item(i).name)
		} else if origin != writtenOrigin(u) {
			r.note(list.item(i), "write it in lower case, without a default port", "%q has no effect: browsers write that origin in another way", list.item(i).name)
		}
	}
	checkTwice(c.AllowedOrigins, list, r)
}

// writtenOrigin returns an origin as browsers write it: in lower case, and without the port that
// the scheme has by default (RFC 6454, section 6.2).
func writtenOrigin(u *url.URL) string {
	host := u.Host
	switch {
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
		host = strings.TrimSuffix(host, ":"+u.Port())
	case u.Scheme != "https" && u.Scheme != "http": // of an editor, or of an extension
		return u.Scheme + "://" + host
	}
	return u.Scheme + "://" + strings.ToLower(host)
}

// checkTwice notes repeated elements of a list.
func checkTwice(values []string, list place, r *reader) {
	first := make(map[string]int, len(values))
	for i, value := range values {
		if earlier, twice := first[value]; twice {
			r.note(list.item(i), "", "%q is the same as %q", list.item(i).name, list.item(earlier).name)
			continue
		}
		first[value] = i
	}
}

// checkTokens checks each token, and that none is repeated.
func checkTokens(c *Config, r *reader) {
	auth := place{}.key("auth")
	list := auth.key("tokens")
	public := c.isPublic() && !r.has(place{}.key("listen"))
	for i := range c.Auth.Tokens {
		token, p := &c.Auth.Tokens[i], list.item(i)
		if r.has(p) {
			continue
		}
		checkToken(token, p, public, r)
		checkTokenProfiles(c, token, p, r)
		// For two principals the order of the file would decide which one calls.
		same := func(other Token) bool { return !token.Value.IsZero() && other.Value.Equal(token.Value) }
		if first := slices.IndexFunc(c.Auth.Tokens[:i], same); first >= 0 {
			hint := "each principal needs a token of its own"
			if c.Auth.Tokens[first].Principal == token.Principal {
				hint = "remove one of them"
			}
			r.report(p, hint, "%q and %q are one token", list.item(first).name, p.name)
		}
	}
	// The intention is ambiguous.
	if c.AllowUnauthenticated && (!c.Auth.IsZero() || r.has(auth) || r.has(list)) {
		p := place{}.key("allowUnauthenticated")
		r.report(p, "remove one of them", `%q contradicts "auth"`, p.name)
	}
}

// shortToken is the length below which a token was more likely chosen by a person than
// generated: 16 hexadecimal digits are 64 bits.
const shortToken = 16

// checkToken requires that a token has one source and a principal. It notes a token that can
// be guessed, and rejects a placeholder if other machines can reach the listener.
func checkToken(token *Token, p place, public bool, r *reader) {
	text := token.Value.Reveal()
	inEnv, inFile := p.key("env"), p.key("file")
	hasEnv, hasFile := token.Env != "" || r.has(inEnv), token.File != "" || r.has(inFile)
	source, origin := p, strconv.Quote(p.name)
	switch {
	case token.File != "":
		source, origin = inFile, "the file "+token.File
	case token.Env != "":
		source, origin = inEnv, "the environment variable "+token.Env
	}
	switch {
	case hasEnv && hasFile:
		r.report(p, "remove one of them", `%q has both "env" and "file"`, p.name)
	case token.Value.IsZero() && !hasEnv && !hasFile && !r.hasOrMeant(inEnv, inFile):
		r.report(p, `"env" names a variable, "file" a path`, "%q does not specify where the token is", p.name)
	case !isBearer(text):
		r.report(source, notBearerHint(text), "the value of %s is not a single bearer token", origin)
	}

	const hint = `"openssl rand -hex 32" makes a better one`
	switch {
	case isPlaceholder(text):
		r.note(p, hint, "%q holds a placeholder, which anyone can guess", p.name)
	case len(text) < shortToken:
		r.note(p, hint, "%q holds a token of fewer than %d characters, which can be guessed", p.name, shortToken)
	}
	if public && isPlaceholder(text) {
		const cure = hint + `; to let everybody in, write "allowUnauthenticated: true" instead of "auth"`
		r.report(source, cure, "the value of %s is a placeholder, which anyone can guess", origin)
	}

	at := p.key("principal")
	switch {
	// Limits, sessions and the audit record depend on it.
	case token.Principal == "" && !r.hasOrMeant(at):
		r.report(p, `add "principal"`, "%q does not name its principal", p.name)
	case strings.ContainsFunc(token.Principal, unicode.IsControl):
		r.report(at, "remove it", "%q has a control character in it", at.name)
	}
}

// isBearer reports whether text has the form of a bearer token (RFC 6750, section 2.1:
// b64token). An empty text is reported where it is read.
func isBearer(text string) bool {
	text = strings.TrimRight(text, "=")
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r > 0x7f || !isNameByte(byte(r)) && !strings.ContainsRune("~+/", r)
	})
}

// checkWords rejects words that a file could not have.
func checkWords(c *Config, r *reader) {
	checkWord(r, place{}.key("conflict"), c.Conflict, ConflictHide, ConflictFirst)
	checkWord(r, place{}.key("reload"), c.Reload, ReloadGuarded, ReloadAuto, ReloadManual)
	logs := place{}.key("log")
	checkWord(r, logs.key("level"), c.Log.Level, "debug", "info", "warn", "error")
	checkWord(r, logs.key("format"), c.Log.Format, "text", "json")
}

func checkWord[S ~string](r *reader, p place, word S, known ...S) {
	if word != "" && !slices.Contains(known, word) {
		r.report(p, "", "%q must be one of %v", p.name, known)
	}
}

// checkLimits notes limits that have no effect because of another configured limit. Limits
// with their default values are not compared.
func checkLimits(c *Config, r *reader) {
	l, p := &c.Limits, place{}.key("limits")
	for _, pair := range []struct {
		key, whole string
		one, all   int64
	}{
		{"sessionsPerPrincipal", "sessions", int64(l.SessionsPerPrincipal), int64(l.Sessions)},
		{"schema", "backendMessage", l.Schema, l.BackendMessage},
		{"callIdle", "callMax", int64(l.CallIdle), int64(l.CallMax)},
	} {
		// Zero (the default) and negative (no limit) are not compared.
		if pair.one > pair.all && pair.all > 0 {
			r.note(p.key(pair.key), "", "%q is more than %q, and is never reached", pair.key, pair.whole)
		}
	}
	for i := range c.Servers {
		if s := &c.Servers[i]; !s.Disabled && s.Timeout > 0 && l.CallIdle > s.Timeout {
			r.note(s.place().key("timeout"), "", `"limits.callIdle" is more than this "timeout", and is never reached here`)
		}
	}
}

// checkSealingKeys requires keys of sufficient length, and notes repeated ones: an operator that
// adds a new key and repeats the old one has replaced nothing. Neither keys nor their lengths
// are shown: the reader of a problem may not be allowed to know them.
func checkSealingKeys(c *Config, r *reader) {
	checkKeys(c.State.Keys, place{}.key("state").key("keys"), r)
	checkKeys(c.Credentials.Keys, place{}.key("credentials").key("keys"), r)
}

func checkKeys(keys []Secret, list place, r *reader) {
	for i, key := range keys {
		at := list.item(i)
		first := slices.IndexFunc(keys[:i], key.Equal)
		switch {
		case r.has(at):
		case len(key.Reveal()) < seal.MinKey:
			r.report(at, `"openssl rand -hex 32" makes one`, "%q has fewer than %d characters, and could be guessed", at.name, seal.MinKey)
		case first >= 0:
			r.note(at, "remove one of them", "%q is the same as %q", at.name, list.item(first).name)
		}
	}
}
