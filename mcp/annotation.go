// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

const annotationKey = "x-mcp-header"

// maxParamHeaders bounds the mirrored arguments of one tool. HTTP servers commonly
// refuse a request with more than a hundred headers, so that no call of such a tool
// would arrive, and the cost of a call grows with their number.
const maxParamHeaders = 128

// maxFaults is how many invalid annotations are named: enough to correct them in one
// go, and few enough for a log line.
const maxFaults = 16

// ParamHeaders returns the x-mcp-header annotations of a tool's input schema, in the
// order of the schema; the result belongs to the caller. A schema without annotations
// is not checked otherwise.
//
// The error names up to 16 annotations that break a rule. A tool with such a schema
// must not be offered over HTTP (2026-07-28, basic/transports/streamable-http, "Schema
// Extension").
func ParamHeaders(inputSchema []byte) ([]ParamHeader, error) {
	// Few schemas have any, and the name can only be hidden with \u.
	if !bytes.Contains(inputSchema, []byte(annotationKey)) && !bytes.Contains(inputSchema, []byte(`\u`)) {
		return nil, nil
	}
	a := annotations{Scanner: jsonscan.NewScanner(inputSchema, jsonscan.Limits{})}
	if i := a.Begin(); i >= 0 {
		a.End(a.schema(i, 0, nil, true))
	}
	if a.Err != nil {
		return nil, fmt.Errorf("input schema: %w", a.Err)
	}
	return a.result()
}

// result returns nothing for a schema without annotations. Duplicate members are errors
// only beside an annotation, because some readers would see it and others not;
// elsewhere they are the backend's business.
func (a *annotations) result() ([]ParamHeader, error) {
	if !a.annotated || len(a.faults) == 0 {
		return a.found, nil
	}
	if more := a.faulty - len(a.faults); more > 0 {
		a.faults = append(a.faults, fmt.Errorf("and %d more", more))
	}
	return nil, errors.Join(a.faults...)
}

// annotations collects the annotations of a schema in one pass. It descends at most as
// deep as the scanner's limit.
type annotations struct {
	jsonscan.Scanner
	found     []ParamHeader
	taken     map[string]bool // names in found, in lower case
	annotated bool            // there is an annotation, valid or not
	faulty    int             // number of faults
	faults    []error         // the first maxFaults of them
}

// schema reads the schema at i. Only a schema that is reachable from the root through
// properties alone may be annotated. Anything inside an unknown keyword may be a schema
// and is treated as one: losing a tool is better than an annotation that only some
// readers see.
func (a *annotations) schema(i, depth int, path []string, reachable bool) int {
	switch {
	case depth >= a.Depth:
		return a.TooDeep(i)
	case a.At(i) == '[':
		return a.schemas(i, depth, path)
	case a.At(i) != '{':
		return a.Value(i, depth)
	}
	var name, kind []byte
	var seen jsonscan.Names
	for i = a.First(i); i >= 0; i = a.Next(i) {
		key := i
		if i = a.Key(i); i < 0 {
			return jsonscan.Failed
		}
		start, keyword := i, a.KeyText(key)
		if !seen.Add(jsonscan.FieldNone, []byte(keyword)) {
			a.fault(path, "duplicate member "+jsonscan.Quoted([]byte(keyword)))
		}
		if i = a.keyword(i, depth+1, keyword, path, reachable); i < 0 {
			return jsonscan.Failed
		}
		switch keyword {
		case annotationKey:
			name = a.Data[start:i]
		case "type":
			kind = a.Data[start:i]
		}
	}
	if name != nil {
		a.annotate(path, reachable, name, kind)
	}
	return a.AfterObject
}

// keyword reads the value of a schema's keyword.
func (a *annotations) keyword(i, depth int, keyword string, path []string, reachable bool) int {
	switch keyword {
	case "properties":
		return a.properties(i, depth, path, reachable)
	case "patternProperties", "$defs", "definitions", "dependentSchemas":
		return a.properties(i, depth, append(path, keyword), false)
	case "default", "const", "enum", "examples", "example":
		return a.Value(i, depth) // data, which has no annotations
	default:
		return a.schema(i, depth, append(path, keyword), false)
	}
}

// properties reads an object with free member names and schemas as values.
func (a *annotations) properties(i, depth int, path []string, reachable bool) int {
	if a.At(i) != '{' {
		return a.Value(i, depth)
	}
	if depth >= a.Depth {
		return a.TooDeep(i)
	}
	var seen jsonscan.Names
	for i = a.First(i); i >= 0; i = a.Next(i) {
		key := i
		if i = a.Key(i); i < 0 {
			return jsonscan.Failed
		}
		name := a.KeyText(key)
		if !seen.Add(jsonscan.FieldNone, []byte(name)) {
			a.fault(path, "duplicate property "+jsonscan.Quoted([]byte(name)))
		}
		if i = a.schema(i, depth+1, append(path, name), reachable); i < 0 {
			return jsonscan.Failed
		}
	}
	return a.AfterObject
}

// schemas reads an array of schemas, which are not reachable.
func (a *annotations) schemas(i, depth int, path []string) int {
	if i = a.Space(i + 1); a.At(i) == ']' {
		return i + 1
	}
	for {
		if i = a.schema(i, depth+1, path, false); i < 0 {
			return jsonscan.Failed
		}
		i = a.Space(i)
		switch a.At(i) {
		case ',':
			i = a.Space(i + 1)
		case ']':
			return i + 1
		default:
			return a.Syntax(i, "',' or ']' after an element")
		}
	}
}

// annotate checks one annotation against the rules of the specification.
func (a *annotations) annotate(path []string, reachable bool, token, kind []byte) {
	a.annotated = true
	name, isText := jsonscan.DecodeText(token)
	typ, _ := jsonscan.DecodeText(kind)
	switch {
	case !reachable || len(path) == 0:
		a.fault(path, "only an argument reached through properties alone can be mirrored")
	case !isText:
		a.fault(path, "the header's name is "+jsonscan.KindOf(token)+", not a string")
	case name == "":
		a.fault(path, "the header's name is empty")
	case !isToken(name):
		a.fault(path, "the header's name "+jsonscan.Quoted([]byte(name))+" is not a token (RFC 9110)")
	case typ != "string" && typ != "integer" && typ != "boolean":
		a.fault(path, "only type string, integer or boolean can be mirrored")
	case a.taken[strings.ToLower(name)]: // header names ignore case, and tokens are ASCII
		a.fault(path, "the header's name "+jsonscan.Quoted([]byte(name))+" is already taken")
	case len(a.found) == maxParamHeaders:
		a.fault(path, "more than "+strconv.Itoa(maxParamHeaders)+" arguments are mirrored")
	default:
		a.add(ParamHeader{Name: name, Path: slices.Clone(path), Type: typ})
	}
}

func (a *annotations) add(p ParamHeader) {
	if a.taken == nil {
		a.taken = make(map[string]bool)
	}
	a.taken[strings.ToLower(p.Name)] = true
	a.found = append(a.found, p)
}

func (a *annotations) fault(path []string, reason string) {
	if a.faulty++; a.faulty > maxFaults {
		return
	}
	at := "the root"
	if len(path) > 0 {
		at = jsonscan.Quoted([]byte(strings.Join(path, ".")))
	}
	a.faults = append(a.faults, fmt.Errorf("%s at %s: %s", annotationKey, at, reason))
}

// isToken reports whether a name may be a header's (RFC 9110, section 5.6.2).
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}
