// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Entry is one item that is offered. It is immutable.
type Entry struct {
	Kind        Kind
	Backend     int    // place in what Build was given
	BackendName string // the configured name

	// Name is the name or URI by which clients ask for the item, and Own that by
	// which its backend knows it. They differ for tools and prompts only.
	Name, Own string

	// ParamHeaders are the arguments of a tool that a client mirrors into headers.
	ParamHeaders []mcp.ParamHeader

	// ReadOnly and Idempotent are what a tool's annotations say of it. They are
	// the backend's word, which nothing verifies.
	ReadOnly, Idempotent bool

	item []byte
}

// JSON returns the item as it is listed. It must not be changed.
func (e *Entry) JSON() []byte { return e.item }

// newEntry reads one item. Instead of one that cannot be offered it returns the
// reason; name is what can be said of the item then.
func (b *builder) newEntry(k Kind, backend int, raw json.RawMessage) (e *Entry, name, reason string) {
	obj, reason := parseItem(raw)
	if reason != "" {
		return nil, "", reason
	}
	if nestsDeeper(obj.Bytes(), maxItemDepth) {
		own, reason := identity(k, &obj)
		return nil, own, cmp.Or(reason, fmt.Sprintf("it nests deeper than the %d levels that an item of a list may have", maxItemDepth))
	}
	obj = mend(obj)
	// Mended first, so that everything that follows reads what clients will.
	own, reason := identity(k, &obj)
	if reason != "" {
		return nil, "", reason
	}
	in := &b.in[backend]
	e = &Entry{Kind: k, Backend: backend, BackendName: in.Name, Name: own, Own: own, item: obj.Bytes()}
	if k.named() {
		e.rename(in.Rules.name(in.Name, own), &obj)
	}
	if k == Tools {
		reason = e.readTool(limit(b.opt.MaxSchema, DefaultMaxSchema))
	}
	return e, own, reason
}

// maxItemDepth is how deep an item may nest: as deep as a message of which readers take
// 128 levels ([mcp.Limits]), less its envelope, its result and the list.
const maxItemDepth = 128 - 3

func parseItem(raw []byte) (mcp.Object, string) {
	// Told apart from what is broken: servers do list bare names.
	if raw = bytes.TrimSpace(raw); !isObject(raw) {
		return mcp.Object{}, "it is no object"
	}
	obj, err := mcp.ParseObject(raw)
	if err != nil {
		return mcp.Object{}, err.Error()
	}
	return obj, ""
}

// identity returns what the backend calls the item.
func identity(k Kind, obj *mcp.Object) (own, reason string) {
	missing := "name"
	var ok bool
	switch k {
	case Resources:
		missing = "uri"
		own, ok = obj.Text(mcp.FieldURI)
	case Templates:
		missing = "uriTemplate"
		value := member(obj.Bytes(), missing)
		if ok = isString(value); ok {
			own = text(value)
		}
	default:
		own, ok = obj.Text(mcp.FieldName)
	}
	if !ok || own == "" {
		return "", "it has no " + missing
	}
	return own, ""
}

// rename splices the name in, if it differs.
func (e *Entry) rename(name string, obj *mcp.Object) {
	// The bytes are the backend's own then, and are not copied.
	if name == e.Own {
		return
	}
	var edit mcp.Edit
	edit.SetText(mcp.FieldName, name)
	e.Name = name
	e.item = edit.AppendTo(make([]byte, 0, len(e.item)+len(name)+len(`"",`)), obj)
}

// readTool reads what the gateway needs to know of a tool, and says why it cannot
// be offered, if so.
func (e *Entry) readTool(maxSchema int) (reason string) {
	var input []byte
	for name, value := range mcp.Members(e.item) {
		why := ""
		switch name {
		case "inputSchema":
			input = value
			why = cmp.Or(checkSchema(name, value, maxSchema), checkType(name, value))
		case "outputSchema":
			why = checkSchema(name, value, maxSchema)
		case "annotations":
			e.readAnnotations(value)
		}
		reason = cmp.Or(reason, why)
	}
	switch {
	case reason != "":
		return reason
	case input == nil:
		return "it has no inputSchema"
	}
	var err error
	// A tool whose headers cannot be told is refused by clients that follow the
	// specification (2026-07-28, basic/transports/streamable-http), and is offered to none.
	if e.ParamHeaders, err = mcp.ParamHeaders(input); err != nil {
		return err.Error()
	}
	return ""
}

// readAnnotations takes true for true and everything else for the default, which
// is the careful answer.
func (e *Entry) readAnnotations(raw []byte) {
	for name, value := range mcp.Members(raw) {
		switch name {
		case "readOnlyHint":
			e.ReadOnly = string(value) == "true"
		case "idempotentHint":
			e.Idempotent = string(value) == "true"
		}
	}
}

// place names an item that has no name.
func place(i int) string { return "at place " + strconv.Itoa(i+1) }
