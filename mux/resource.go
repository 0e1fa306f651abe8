// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Resource can be read at one URI.
type Resource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Description string `json:"description,omitempty"`
	Size        int64  `json:"size,omitzero"`        // in bytes, if known
	Annotations JSON   `json:"annotations,omitzero"` // an object, or empty
	Icons       JSON   `json:"icons,omitzero"`       // an array, or empty
	Meta        JSON   `json:"_meta,omitzero"`       // an object, or empty

	// TTL is how long the client may cache the contents. Zero means not at all.
	TTL time.Duration `json:"-"`

	// Read returns the contents, which must not be empty. It is called concurrently.
	Read func(ctx context.Context, call *Call) ([]Contents, error) `json:"-"`
}

// A Template is a set of resources: one for each URI that it matches.
type Template struct {
	// URI is a template (RFC 6570) with plain text, {name}, which matches one segment,
	// and {+name}, which may contain slashes. A Resource with a matching URI takes
	// precedence.
	URI         string `json:"uriTemplate"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Description string `json:"description,omitempty"`
	Annotations JSON   `json:"annotations,omitzero"` // an object, or empty
	Icons       JSON   `json:"icons,omitzero"`       // an array, or empty
	Meta        JSON   `json:"_meta,omitzero"`       // an object, or empty

	// TTL is how long the client may cache the contents. Zero means not at all.
	TTL time.Duration `json:"-"`

	// Read returns the contents of the resource, or NotFound. Call.Var returns the
	// variables in the URI. It is called concurrently.
	Read func(ctx context.Context, call *Call) ([]Contents, error) `json:"-"`

	// Complete has the Completers of variables.
	Complete map[string]Completer `json:"-"`

	match pattern
}

func (r Resource) put(c *catalog) error {
	if r.Read == nil {
		return fmt.Errorf("mux: resource %q has no Read", r.URI)
	}
	if err := checkShown(r.Annotations, r.Icons, r.Meta); err != nil {
		return fmt.Errorf("mux: resource %q: %w", r.URI, err)
	}
	c.changed |= listen.Resources
	return c.resources.put("resource", r.URI, r)
}

func (r Resource) drop(c *catalog) { c.changed |= c.resources.drop(r.URI, listen.Resources) }

func (t Template) put(c *catalog) error {
	if t.Read == nil {
		return fmt.Errorf("mux: template %q has no Read", t.URI)
	}
	err := checkShown(t.Annotations, t.Icons, t.Meta)
	if err == nil {
		t.match, err = parsePattern(t.URI)
	}
	if err != nil {
		return fmt.Errorf("mux: template %q: %w", t.URI, err)
	}
	c.changed |= listen.Resources
	return c.templates.put("template", t.URI, t)
}

func checkShown(annotations, icons, meta JSON) error {
	return check(jsonField{"annotations", annotations, anObject}, jsonField{"icons", icons, anArray}, jsonField{"_meta", meta, anObject})
}

func (t Template) drop(c *catalog) { c.changed |= c.templates.drop(t.URI, listen.Resources) }

// Updated notifies clients that are subscribed to the resource, or to one that contains it
// by the path of its URI, that its contents have changed.
func (m *Mux) Updated(uri string) error {
	if m.Fixed && m.current().served {
		return errFixed
	}
	m.feed.UpdateResource(listen.ResourceUpdated(uri))
	return nil
}

// NotFound returns the error for a URI without a resource (2026-07-28,
// server/resources, "Error Handling"). Its data has the URI, for a client that reads
// several resources at once.
func NotFound(uri string) error {
	return &mcp.Error{
		Code: mcp.CodeInvalidParams, Message: "resource not found",
		Data: []byte(object("uri", uri)),
	}
}

func (m *Mux) serveResources(ctx context.Context, c *catalog, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "resources/list":
		return page(m, req, "resources", &c.resources)
	case "resources/templates/list":
		return page(m, req, "resourceTemplates", &c.templates)
	}
	uri, _ := req.Params.Text(mcp.FieldURI)
	found, ok := c.find(uri)
	if !ok {
		return nil, NotFound(uri)
	}
	call := &Call{Request: req, Caller: caller, mux: m, vars: found.vars}
	contents, err := found.read(ctx, call)
	switch {
	case err != nil:
		return call.fail("resource "+uri, err)
	case len(contents) == 0:
		return nil, NotFound(uri) // empty contents would mean an empty resource
	}
	return readResult(contents, found.ttl)
}

// foundResource is the resource found at a URI.
type foundResource struct {
	read func(ctx context.Context, call *Call) ([]Contents, error)
	ttl  time.Duration
	vars map[string]string
}

// find finds the resource at a URI. URIs are compared byte by byte.
func (c *catalog) find(uri string) (foundResource, bool) {
	if r, ok := c.resources.get(uri); ok {
		return foundResource{read: r.Read, ttl: r.TTL}, true
	}
	for i := range c.templates.entries {
		t := &c.templates.entries[i].item
		if vars, ok := t.match.vars(uri); ok {
			return foundResource{t.Read, t.TTL, vars}, true
		}
	}
	return foundResource{}, false
}

// readResult returns the contents with their TTL. The scope of a TTL is private,
// because it is unknown whether other clients may see the same contents.
func readResult(contents []Contents, ttl time.Duration) (*mcp.Result, error) {
	raw, err := json.Marshal(contents)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"contents":`), raw...)
	if ttl > 0 {
		out = strconv.AppendInt(append(out, `,"ttlMs":`...), ttl.Milliseconds(), 10)
		out = append(out, `,"cacheScope":"private"`...)
	}
	return mcp.NewResult(append(out, '}'))
}

// pattern is a URI template that can be matched: text and variables alternate.
type pattern struct {
	texts []string // one more than names
	names []string
	wide  []bool // the variable may contain slashes
}

var errPattern = errors.New("a URI template consists of text, {name} and {+name}, with text between variables")

func parsePattern(template string) (pattern, error) {
	var p pattern
	rest := template
	for {
		text, after, open := strings.Cut(rest, "{")
		p.texts = append(p.texts, text)
		switch {
		case strings.Contains(text, "}"), open && text == "" && len(p.names) > 0:
			return pattern{}, errPattern
		case !open:
			return p, nil
		}
		name, after, closed := strings.Cut(after, "}")
		name, wide := strings.CutPrefix(name, "+")
		if !closed || name == "" || strings.ContainsAny(name, "#./;?&*:,{") {
			return pattern{}, errPattern
		}
		p.names, p.wide = append(p.names, name), append(p.wide, wide)
		rest = after
	}
}

// vars returns the values of the variables in a URI made from the template. Each
// variable matches as little as possible, and the last one the rest.
func (p pattern) vars(uri string) (map[string]string, bool) {
	rest, ok := strings.CutPrefix(uri, p.texts[0])
	if !ok {
		return nil, false
	}
	vars := make(map[string]string, len(p.names))
	for i, name := range p.names {
		value, after, ok := p.cut(rest, i)
		if !ok || value == "" || !p.wide[i] && strings.Contains(value, "/") {
			return nil, false
		}
		decoded, err := url.PathUnescape(value)
		if err != nil || strings.ContainsAny(value, "{}") {
			return nil, false
		}
		vars[name], rest = decoded, after
	}
	return vars, rest == ""
}

// cut cuts the value of a variable, and the text after it, off a URI.
func (p pattern) cut(rest string, i int) (value, after string, ok bool) {
	text := p.texts[i+1]
	if i+1 < len(p.names) {
		return strings.Cut(rest, text)
	}
	value, ok = strings.CutSuffix(rest, text)
	return value, "", ok
}
