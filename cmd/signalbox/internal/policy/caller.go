// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// caller describes a caller. The zero value is the anonymous one.
type caller struct {
	principal, issuer, subject, via string
	scopes                          []string
	claims                          map[string]any

	era, client, version string
}

// identity returns the identity of the caller. What the file does not have is taken from the
// claims.
func (c *caller) identity() *mcp.Identity {
	if c.principal == "" && c.via == "" && c.issuer == "" && c.subject == "" && c.scopes == nil && c.claims == nil {
		return nil
	}
	id := &mcp.Identity{Principal: c.principal, Via: mcp.Via(c.via), Issuer: c.issuer, Subject: c.subject, Scopes: c.scopes, Claims: c.claims}
	claim := func(name string) string { text, _ := c.claims[name].(string); return text }
	if c.claims != nil && c.via == "" {
		id.Via = mcp.ViaJWT
	}
	id.Issuer, id.Subject = cmp.Or(id.Issuer, claim("iss")), cmp.Or(id.Subject, claim("sub"))
	if c.scopes == nil {
		id.Scopes = strings.Fields(cmp.Or(claim("scope"), claim("scp")))
		if list, ok := c.claims["scp"].([]any); ok {
			for _, scope := range list {
				id.Scopes = append(id.Scopes, fmt.Sprint(scope))
			}
		}
		slices.Sort(id.Scopes)
	}
	return id
}

func (c *caller) peer() *mcp.Peer {
	p := &mcp.Peer{Version: mcp.LatestModern}
	if c.era == "legacy" {
		p.Version = mcp.V20251125
	}
	p.Info = append(jsonscan.AppendString(append(jsonscan.AppendString([]byte(`{"name":`), c.client), `,"version":`...), c.version), '}')
	return p
}

// String describes the caller in a line, without its claims.
func (c *caller) String() string {
	id := c.identity()
	if id == nil {
		return "anonymous"
	}
	text := fmt.Sprintf("principal %q by %s", id.Principal, cmp.Or(string(id.Via), "nothing"))
	if len(id.Scopes) > 0 {
		text += ", scopes " + strings.Join(id.Scopes, " ")
	}
	if len(id.Claims) > 0 {
		text += ", " + output.Plural(len(id.Claims), "claim")
	}
	return text
}

// reader reads a file, and keeps the first mistake.
type reader struct {
	file string
	err  error
}

func (r *reader) fail(at configfile.Position, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s:%d:%d: %s", r.file, at.Line, at.Column, fmt.Sprintf(format, args...))
	}
}

func (r *reader) parse(text []byte) configfile.Node {
	root, problem := configfile.Parse(text, configfile.IsJSON(r.file))
	if problem != nil {
		r.fail(problem.At, "%s", problem.Message)
	}
	return root
}

// readCaller reads a file with one caller.
func readCaller(file string, text []byte) (caller, error) {
	r := &reader{file: file}
	root := r.parse(text)
	if r.err != nil {
		return caller{}, r.err
	}
	c := r.caller(root)
	return c, r.err
}

// members calls the function of each member of a mapping.
func (r *reader) members(n configfile.Node, of map[string]func(configfile.Node)) {
	if n.Kind != configfile.Mapping {
		r.fail(n.At, "a mapping is expected, not %s", n.Kind)
		return
	}
	seen := make(map[string]bool)
	for _, m := range n.Members {
		read, ok := of[m.Key]
		switch {
		case !ok:
			var names []string
			for name := range of {
				names = append(names, name)
			}
			slices.Sort(names)
			hint := spelling.DidYouMean(m.Key, names)
			if hint == "" {
				hint = "known are " + strings.Join(names, ", ")
			}
			r.fail(m.At, "unknown key %.80q (%s)", m.Key, hint)
		case seen[m.Key]:
			r.fail(m.At, "duplicate key %q", m.Key)
		default:
			read(m.Value)
		}
		seen[m.Key] = true
	}
}

// text returns a function that reads a text.
func (r *reader) text(into *string) func(configfile.Node) {
	return func(n configfile.Node) {
		if n.Kind != configfile.Text {
			r.fail(n.At, "a string is expected, not %s", n.Kind)
		}
		*into = n.Text
	}
}

// word returns a function that reads one of a few words.
func (r *reader) word(into *string, words ...string) func(configfile.Node) {
	return func(n configfile.Node) {
		if n.Kind != configfile.Text || !slices.Contains(words, n.Text) {
			r.fail(n.At, "use one of %s", strings.Join(words, ", "))
		}
		*into = n.Text
	}
}

// list calls a function for each element of a list.
func (r *reader) list(read func(configfile.Node)) func(configfile.Node) {
	return func(n configfile.Node) {
		if n.Kind != configfile.List {
			r.fail(n.At, "a list is expected, not %s", n.Kind)
			return
		}
		for _, item := range n.Items {
			read(item)
		}
	}
}

func (r *reader) caller(n configfile.Node) (c caller) {
	r.members(n, map[string]func(configfile.Node){
		"principal": r.text(&c.principal), "issuer": r.text(&c.issuer), "subject": r.text(&c.subject),
		"via": r.word(&c.via, "token", "jwt", "introspection", "certificate", "proxy", "local"),
		"era": r.word(&c.era, "modern", "legacy"),
		"scopes": func(n configfile.Node) {
			c.scopes = []string{}
			r.list(func(n configfile.Node) {
				var scope string
				r.text(&scope)(n)
				c.scopes = append(c.scopes, scope)
			})(n)
			slices.Sort(c.scopes)
		},
		"claims": func(n configfile.Node) {
			c.claims, _ = r.value(n).(map[string]any)
			if n.Kind != configfile.Mapping {
				r.fail(n.At, "claims are a mapping, not %s", n.Kind)
			}
		},
		"client": func(n configfile.Node) {
			r.members(n, map[string]func(configfile.Node){"name": r.text(&c.client), "version": r.text(&c.version)})
		},
	})
	return c
}

// value returns any value as decoded JSON.
func (r *reader) value(n configfile.Node) any {
	switch n.Kind {
	case configfile.Mapping:
		members := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			if _, twice := members[m.Key]; twice {
				r.fail(m.At, "duplicate key %q", m.Key)
			}
			members[m.Key] = r.value(m.Value)
		}
		return members
	case configfile.List:
		list := []any{}
		for _, item := range n.Items {
			list = append(list, r.value(item))
		}
		return list
	case configfile.Text:
		return n.Text
	case configfile.Bool:
		return n.Text == "true"
	case configfile.Null:
		return nil
	default:
		if !json.Valid([]byte(n.Text)) {
			r.fail(n.At, "this number is not one of JSON")
		}
		return json.Number(n.Text)
	}
}
