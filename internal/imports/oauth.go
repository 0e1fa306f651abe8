// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// OAuth is what a client has written down of its sign-in at a server.
type OAuth struct {
	ClientID, ClientSecret string
	CallbackHost           string
	CallbackPort           int
	Scopes                 []string
	Resource               string
}

// isZero reports whether there is nothing but that there is a sign-in, which the gateway finds
// out by itself.
func (o *OAuth) isZero() bool {
	return o == nil || o.ClientID == "" && o.ClientSecret == "" && o.CallbackPort == 0 && len(o.Scopes) == 0 && o.Resource == ""
}

// entry returns what is known, as oauth in a configuration file.
func (o *OAuth) entry() (all configedit.Entry) {
	if o == nil {
		return nil
	}
	add := func(key string, value any, is bool) {
		if is {
			all = append(all, configedit.Field{Key: key, Value: value})
		}
	}
	add("clientId", o.ClientID, o.ClientID != "")
	add("clientSecret", o.ClientSecret, o.ClientSecret != "")
	add("callbackHost", o.CallbackHost, o.CallbackHost != "")
	add("callbackPort", o.CallbackPort, o.CallbackPort != 0)
	add("scopes", o.Scopes, len(o.Scopes) > 0)
	add("resource", o.Resource, o.Resource != "")
	return all
}

// signIn reads a key about the sign-in at a server.
func (e *entry) signIn(m configfile.Member) {
	if e.OAuth == nil {
		e.OAuth = new(OAuth)
	}
	switch n := m.Value; {
	case m.Key == "scopes":
		e.OAuth.Scopes = append(e.OAuth.Scopes, scopesIn(n)...)
	case m.Key == "oauth_resource":
		e.OAuth.Resource = n.Text
	case m.Key == "authProviderType" && n.Text == "dynamic_discovery", n.Kind == configfile.Bool, n.Kind == configfile.Text && n.Text == "oauth":
		// The gateway finds out by itself.
	case m.Key == "authProviderType" || n.Kind != configfile.Mapping:
		e.note(m.At.Line, `%q is not imported: the gateway has no such sign-in (if the server requires it, write an Authorization header in "headers")`, m.Key)
	default:
		if enabled, ok := n.Member("enabled"); ok && meansFalse(enabled) {
			return
		}
		for _, inner := range n.Members {
			e.signInKey(m.Key, inner)
		}
	}
}

// signInKey reads one key of a mapping about the sign-in at a server.
func (e *entry) signInKey(of string, m configfile.Member) {
	o, n := e.OAuth, m.Value
	switch strings.ToLower(strings.ReplaceAll(m.Key, "_", "")) {
	case "enabled":
	case "clientid":
		o.ClientID = n.Text
	case "clientsecret":
		o.ClientSecret = n.Text
	case "callbackport":
		port, err := strconv.Atoi(n.Text)
		if err != nil || port < 1 || port > 65535 {
			e.note(m.At.Line, "%s.%s is not imported: it is no port", of, m.Key)
			return
		}
		o.CallbackPort = port
	case "redirecturi", "redirecturl", "callbackurl":
		u, err := url.Parse(n.Text)
		if err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1") && u.Path == "/callback" && u.RawQuery == "" {
			if port, err := strconv.Atoi(u.Port()); err == nil {
				o.CallbackHost, o.CallbackPort = u.Hostname(), port
				return
			}
		}
		e.note(m.At.Line, "%s.%s is not imported: a redirect URI of the gateway on this machine is http://127.0.0.1:PORT/callback (register it for the client, and set \"callbackPort\" of \"oauth\")", of, m.Key)
	case "scope", "scopes":
		o.Scopes = append(o.Scopes, scopesIn(n)...)
	case "resource":
		o.Resource = n.Text
	case "authorizationurl", "tokenurl", "registrationurl", "authservermetadataurl", "issuer":
		e.note(m.At.Line, `%s.%s is not imported: the gateway asks the server for its authorization server (if it has another one, set "issuer" of "oauth")`, of, m.Key)
	default:
		e.note(m.At.Line, "%s.%s is not imported: the gateway has no such setting", of, m.Key)
	}
}

// scopesIn returns the scopes in a list, or in a text with blanks between them.
func scopesIn(n configfile.Node) (all []string) {
	texts := []string{n.Text}
	for _, item := range n.Items {
		texts = append(texts, item.Text)
	}
	for _, text := range texts {
		all = append(all, strings.Fields(text)...)
	}
	return all
}

// finishSignIn makes the sign-in fit for a configuration.
func (e *entry) finishSignIn() {
	o := e.OAuth
	switch {
	case o.isZero():
		e.OAuth = nil
		return
	case e.URL == "":
		e.note(e.line, "the sign-in is not imported: the server is a program")
		e.OAuth = nil
		return
	case slices.ContainsFunc(e.Headers, func(p Pair) bool { return strings.EqualFold(p.Name, "Authorization") }):
		e.note(e.line, "the sign-in is not imported: the Authorization header is used instead")
		e.OAuth = nil
		return
	case o.ClientSecret != "" && o.ClientID == "":
		e.note(e.line, "the secret of the client is not imported: there is no client id")
		o.ClientSecret = ""
	}
	for _, value := range []*string{&o.ClientID, &o.ClientSecret} {
		replaced, ok := e.replace(*value, "the client of the sign-in")
		if !ok || strings.ContainsRune(replaced, 0) {
			e.note(e.line, "the client of the sign-in is not imported: it has a ${ without an end")
			o.ClientID, o.ClientSecret = "", ""
			break
		}
		*value = replaced
	}
	slices.Sort(o.Scopes)
	o.Scopes = slices.Compact(o.Scopes)
	o.Scopes = slices.DeleteFunc(o.Scopes, func(scope string) bool {
		return strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
	})
	if o.isZero() {
		e.OAuth = nil
	}
}
