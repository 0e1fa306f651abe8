// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"net/url"
	"strings"
)

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
