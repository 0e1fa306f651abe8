// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// Secret is a literal secret of a server that a reference ${Name} replaces.
type Secret struct{ Name, Value string }

// MoveSecrets replaces the literal secrets of servers by references, with a note for each,
// and returns them. Values of variables and headers that are placeholders are replaced, too,
// so that their server only needs the secret to be set. Slices of the servers may be modified.
//
// A secret is named after its variable, or else after its server. Equal names have equal
// values. mayUse reports whether a name can be used for a value; a name to which a server
// refers already is not used for another one.
func MoveSecrets(servers []Server, mayUse func(name, value string) bool) []Secret {
	m := &mover{mayUse: mayUse, values: make(map[string]string), taken: make(map[string]bool)}
	for i := range servers {
		for _, text := range servers[i].texts() {
			for _, found := range anyReference.FindAllStringSubmatch(text, -1) {
				m.taken[found[1]] = true
			}
		}
	}
	for i := range servers {
		servers[i].eachLiteral(m.move)
	}
	return m.moved
}

// KeepSecrets adds a note for each literal secret of the servers.
func KeepSecrets(servers []Server) {
	for i := range servers {
		servers[i].eachLiteral(func(s *Server, l *literal) {
			if !l.placeholder {
				text := fmt.Sprintf("%s is a literal secret in the configuration (better run 'signalbox secret set %s', and write ${%[2]s})", l.at, l.name)
				s.Notes = append(s.Notes, Note{Text: text})
			}
		})
	}
}

// LiteralSecrets returns the values of the literal secrets of servers, which are not modified.
func LiteralSecrets(servers []Server) []string {
	var values []string
	for i := range servers {
		servers[i].eachLiteral(func(_ *Server, l *literal) {
			if !l.placeholder {
				values = append(values, l.value)
			}
		})
	}
	return values
}

// texts are the values of a server in which variables are replaced.
func (s *Server) texts() []string {
	texts := append([]string{s.Command, s.Cwd, s.URL, s.EnvFile}, s.Args...)
	for _, p := range slices.Concat(s.Env, s.Headers) {
		texts = append(texts, p.Value)
	}
	if s.OAuth != nil {
		texts = append(texts, s.OAuth.ClientID, s.OAuth.ClientSecret)
	}
	return texts
}

var anyReference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)

// literal is a secret, or the placeholder of one, in a value of a server.
type literal struct {
	at          string // describes its place in notes
	name        string // of the variable, as suggested; its own if own is set
	own         bool
	value       string
	placeholder bool
	replace     func(reference string)
}

// mover chooses the names of secrets.
type mover struct {
	mayUse func(name, value string) bool
	values map[string]string // those chosen until now
	taken  map[string]bool   // those to which the servers refer
	moved  []Secret
}

func (m *mover) move(s *Server, l *literal) {
	name := l.name
	if l.placeholder {
		l.replace("${" + name + "}")
		s.Placeholders = append(s.Placeholders, name)
		return
	}
	for n := 2; !m.fits(name, l.value); n++ {
		switch longer := variableName(s.Name) + "_" + l.name; {
		case n == 2 && !strings.HasPrefix(l.name, variableName(s.Name)+"_"):
			name = longer
		default:
			name = l.name + "_" + strconv.Itoa(n)
		}
	}
	if _, known := m.values[name]; !known {
		m.values[name] = l.value
		m.moved = append(m.moved, Secret{name, l.value})
	}
	l.replace("${" + name + "}")
	text := l.at + " moves to secrets.env as " + name
	if l.own && l.name == name {
		text = name + " moves to secrets.env"
	}
	s.Notes = append(s.Notes, Note{Text: text, Short: true})
}

func (m *mover) fits(name, value string) bool {
	if known, ok := m.values[name]; ok {
		return known == value
	}
	return !m.taken[name] && m.mayUse(name, value)
}

// eachLiteral calls f for the literal secrets of a server, and for the placeholders in its
// variables and headers.
func (s *Server) eachLiteral(f func(*Server, *literal)) {
	for i := range s.Env {
		p := &s.Env[i]
		l := &literal{at: "env " + clean(p.Name), value: p.Value, replace: func(reference string) { p.Value = reference }}
		l.name, l.own = s.variableFor(p.Name)
		if l.placeholder = isReplaceable(p.Name, p.Value); l.placeholder || isSecret(p.Name, p.Value) && !isPlaceholder(p.Value, isSecret(p.Name, "a long value")) {
			f(s, l)
		}
	}
	for i := range s.Headers {
		p := &s.Headers[i]
		scheme, value := splitScheme(p.Value)
		l := &literal{at: "header " + clean(p.Name), value: value, replace: func(reference string) { p.Value = scheme + reference }}
		l.name = s.headerVariable(p.Name)
		if l.placeholder = isReplaceable(p.Name, value); l.placeholder || (isSecret(p.Name, value) || isKey(p.Name, value)) && !isPlaceholder(value, isSecret(p.Name, "a long value")) {
			f(s, l)
		}
	}
	if o := s.OAuth; o != nil && o.ClientSecret != "" && isLiteral(o.ClientSecret) {
		f(s, &literal{
			at: "the secret of the client", name: s.ownVariable("CLIENT_SECRET"), value: o.ClientSecret,
			placeholder: isPlaceholder(o.ClientSecret, true), replace: func(reference string) { o.ClientSecret = reference },
		})
	}
	for i := range s.Args {
		if l := s.argument(i); l != nil {
			f(s, l)
		}
	}
	s.eachInURL(f)
}

// isReplaceable reports whether the value of a variable or a header is a placeholder as a
// whole, so that a reference can replace it. A path or a text in JSON shows what to write.
func isReplaceable(name, value string) bool {
	_, value = splitScheme(value)
	named := isSecret(name, "a long value")
	return isPlaceholder(value, named) && isLiteral(value) && !strings.Contains(value, `"`) && (named || !strings.ContainsAny(value, `/\`))
}

func isLiteral(value string) bool { return !strings.Contains(value, "${") }

// variableFor returns the variable for the value of another one, and whether it has the same
// name: a name that many servers use gets the server's before it.
func (s *Server) variableFor(name string) (variable string, own bool) {
	variable = variableName(name)
	generic := []string{"API_KEY", "APIKEY", "KEY", "TOKEN", "API_TOKEN", "ACCESS_TOKEN", "AUTH_TOKEN", "BEARER_TOKEN", "AUTHORIZATION", "SECRET", "PASSWORD"}
	if slices.Contains(generic, variable) {
		return variableName(s.Name) + "_" + variable, false
	}
	return variable, variable == name
}

// ownVariable returns a name with that of the server before it.
func (s *Server) ownVariable(name string) string {
	if own := variableName(s.Name) + "_"; !strings.HasPrefix(name, own) {
		return own + name
	}
	return name
}

func (s *Server) headerVariable(header string) string {
	if strings.EqualFold(header, "Authorization") {
		return variableName(s.Name) + "_TOKEN"
	}
	return s.ownVariable(strings.TrimPrefix(variableName(header), "X_"))
}

// splitScheme splits the value of a header behind the scheme of its credentials.
func splitScheme(value string) (scheme, rest string) {
	word, rest, found := strings.Cut(value, " ")
	if found && slices.Contains([]string{"bearer", "basic", "token", "apikey"}, strings.ToLower(word)) {
		return word + " ", rest
	}
	return "", value
}

// argument returns the literal secret in an argument, or nil.
func (s *Server) argument(i int) *literal {
	arg := s.Args[i]
	if !isSecretArg(s.Args, i) || !isLiteral(arg) || isPlaceholder(arg, false) || template.MatchString(arg) {
		return nil
	}
	l := &literal{at: fmt.Sprintf("argument %d", i+1), name: variableName(s.Name) + "_TOKEN", value: arg}
	before := ""
	flag, value, assigned := strings.Cut(arg, "=")
	header, field, isHeader := strings.Cut(arg, ":")
	switch {
	case isSecretHeader(arg) && isHeader:
		scheme, credentials := splitScheme(strings.TrimLeft(field, " "))
		before = header + ":" + field[:len(field)-len(strings.TrimLeft(field, " "))] + scheme
		l.name, l.value = s.headerVariable(header), credentials
	case strings.Contains(arg, "://"):
		l.name = variableName(s.Name) + "_URL"
		if assigned && !strings.Contains(flag, "://") {
			before, l.value = flag+"=", value
		}
	case assigned && valid.IsVariable(flag):
		before, l.value = flag+"=", value
		l.name, _ = s.variableFor(flag)
	case assigned && strings.HasPrefix(flag, "-"):
		before, l.value = flag+"=", value
		l.name = s.ownVariable(variableName(flag))
	case i > 0 && strings.HasPrefix(s.Args[i-1], "--") && !strings.Contains(s.Args[i-1], "="):
		l.name = s.ownVariable(variableName(s.Args[i-1]))
	}
	if l.value == "" || isPlaceholder(l.value, true) {
		return nil
	}
	args := s.Args
	l.replace = func(reference string) { args[i] = before + reference }
	return l
}

// eachInURL calls f for the secrets in the query of the address.
func (s *Server) eachInURL(f func(*Server, *literal)) {
	address, query, found := strings.Cut(s.URL, "?")
	if !found {
		return
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(value); err != nil || !isSecret(name, plain) || isPlaceholder(plain, true) {
			continue
		}
		f(s, &literal{at: "the address", name: s.ownVariable(variableName(name)), value: value, replace: func(reference string) {
			parts[i] = name + "=" + reference
			s.URL = address + "?" + strings.Join(parts, "&")
		}})
	}
}

const (
	minKey     = 20  // characters; shorter values are words
	minEntropy = 3.5 // bits for each character
	minChanges = 4   // between lower case, upper case and digits; words have fewer
)

// isKey reports whether the value of a header looks like a key by its characters: one word
// of letters and digits that are as mixed as random ones.
func isKey(header, value string) bool {
	lower := strings.ToLower(header)
	if len(value) < minKey || strings.HasSuffix(lower, "id") || slices.Contains([]string{"user-agent", "accept", "origin", "referer"}, lower) {
		return false
	}
	count := make(map[rune]float64)
	changes, before := -1, 0
	for _, r := range value {
		count[r]++
		kind := before
		switch {
		case 'a' <= r && r <= 'z':
			kind = 1
		case 'A' <= r && r <= 'Z':
			kind = 2
		case '0' <= r && r <= '9':
			kind = 3
		case !strings.ContainsRune("_-+/=.", r):
			return false
		}
		if kind != before {
			changes, before = changes+1, kind
		}
	}
	entropy := 0.0
	for _, n := range count {
		share := n / float64(len(value))
		entropy -= share * math.Log2(share)
	}
	return changes >= minChanges && entropy >= minEntropy
}
