// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// An Entry is one offered item. It is immutable.
type Entry struct {
	Kind        Kind
	Backend     int    // index in the input of Build
	BackendName string // the configured name

	// Place is the index of the entry among those of its kind that Build offers. It is the same
	// in each view.
	Place int

	// Name is the name or URI that clients use for the item, and Own the one that its
	// backend uses.
	Name, Own string

	offered string // see Offered; "" for Name

	// ParamHeaders are the arguments of a tool that a client mirrors into headers.
	ParamHeaders []mcp.ParamHeader

	// ReadOnly and Idempotent are from a tool's annotations, which the gateway cannot
	// verify.
	ReadOnly, Idempotent bool

	// App is what a tool has about apps.
	App extension.Tool

	// IsUntyped reports that a tool is listed without its output schema, because of Backend.Untyped.
	IsUntyped bool

	item  []byte
	uses  []string // the URIs in a tool's _meta, or of a skill and its files, if clients know them by others
	files []string // the other URIs of a skill and its files
}

// JSON returns the item as it is listed. It must not be changed.
func (e *Entry) JSON() []byte { return e.item }

// newEntry parses one item. If the item cannot be offered, it returns the reason, and
// the item's name as far as it is known.
func (b *builder) newEntry(k Kind, backend int, raw json.RawMessage) (e *Entry, name, reason string) {
	obj, reason := parseItem(raw)
	if reason != "" {
		return nil, "", reason
	}
	if isTooDeep(obj.Bytes()) {
		own, reason := identity(k, &obj)
		return nil, own, cmp.Or(reason, fmt.Sprintf("it is nested deeper than the %d levels allowed for an item of a list", maxItemDepth))
	}
	obj = repair(obj) // first, so that the code below reads what clients are sent
	own, reason := identity(k, &obj)
	if reason != "" {
		return nil, "", reason
	}
	in := &b.in[backend]
	e = &Entry{Kind: k, Backend: backend, BackendName: in.Name, Name: own, Own: own, item: obj.Bytes()}
	switch {
	case k == Skills: // readSkill gives it its URIs
	case in.OwnNames:
		e.offered = in.offeredName(k, own)
	default:
		e.rename(in.offeredName(k, own), &obj)
	}
	label := in.label()
	switch k {
	case Tools:
		reason = e.readTool(limit(b.opt.MaxSchema, DefaultMaxSchema), label)
		b.noteApp(backend, e)
	case Skills:
		if reason = e.readSkill(label); in.OwnNames {
			e.offered = extension.OuterURI(in.Rules.Label(in.Name), own)
		}
	default:
	}
	return e, own, reason
}

// maxItemDepth bounds the nesting of an item: a message may have 128 levels
// ([mcp.Limits]), less the envelope, the result and the list.
const maxItemDepth = 128 - 3

// isTooDeep reports whether an item is nested deeper than maxItemDepth.
func isTooDeep(item []byte) bool {
	if bytes.Count(item, []byte("{"))+bytes.Count(item, []byte("[")) <= maxItemDepth {
		return false
	}
	s := jsonscan.NewScanner(item, jsonscan.Limits{Depth: maxItemDepth, Members: len(item)})
	return s.Value(0, 0) < 0 // all else was checked when the item was parsed
}

func parseItem(raw []byte) (mcp.Object, string) {
	// A separate message, because some servers list bare names.
	if raw = bytes.TrimSpace(raw); !jsonscan.IsObject(raw) {
		return mcp.Object{}, "not an object"
	}
	obj, err := mcp.ParseObject(raw)
	if err != nil {
		return mcp.Object{}, err.Error()
	}
	return obj, ""
}

// identity returns the backend's own name or URI of the item.
func identity(k Kind, obj *mcp.Object) (own, reason string) {
	missing := "name"
	switch k {
	case Resources, Skills:
		missing = "uri"
		own, _ = obj.Text(mcp.FieldURI)
	case Templates:
		missing = uriTemplate
		own = jsonscan.TextOf(jsonscan.Member(obj.Bytes(), missing))
	default:
		own, _ = obj.Text(mcp.FieldName)
	}
	if own == "" {
		return "", "it has no " + missing
	}
	return own, ""
}

// uriTemplate is the member of a resource template that has no mcp.Field.
const uriTemplate = "uriTemplate"

// rename changes the name or URI in the item's JSON, if it differs.
func (e *Entry) rename(name string, obj *mcp.Object) {
	// The backend's bytes are used without a copy.
	if name == e.Own {
		return
	}
	e.Name = name
	var edit mcp.Edit
	switch e.Kind {
	case Templates:
		e.item = jsonscan.RewriteMembers(e.item, func(member string, value []byte) []byte {
			if member == uriTemplate {
				return jsonscan.AppendString(nil, name)
			}
			return value
		})
		return
	case Resources:
		edit.SetText(mcp.FieldURI, name)
	default:
		edit.SetText(mcp.FieldName, name)
	}
	e.item = edit.AppendTo(make([]byte, 0, len(e.item)+len(name)+len(`"",`)), obj)
}

// readTool reads the properties of a tool that the gateway needs, and returns the
// reason if it cannot be offered. The URIs in its _meta get the label.
func (e *Entry) readTool(maxSchema int, label string) (reason string) {
	var input []byte
	for name, value := range jsonscan.Members(e.item) {
		why := ""
		switch name {
		case "inputSchema":
			input = value
			why = cmp.Or(checkSchema(name, value, maxSchema), checkType(name, value))
		case "outputSchema":
			why = checkSchema(name, value, maxSchema)
		case "annotations":
			e.readAnnotations(value)
		case "_meta":
			e.App, e.uses = extension.ReadTool(value), extension.MetaURIs(value)
		}
		reason = cmp.Or(reason, why)
	}
	if e.uses != nil {
		e.item = extension.OuterItem(label, e.item)
	}
	switch {
	case reason != "":
		return reason
	case input == nil:
		return "it has no inputSchema"
	}
	var err error
	// Clients that follow the specification reject a tool with invalid header
	// annotations (2026-07-28, basic/transports/streamable-http), so it is not offered
	// to any.
	if e.ParamHeaders, err = mcp.ParamHeaders(input); err != nil {
		return err.Error()
	}
	return ""
}

// readAnnotations treats every value except true as the default, which is the safe
// choice.
func (e *Entry) readAnnotations(raw []byte) {
	for name, value := range jsonscan.Members(raw) {
		switch name {
		case "readOnlyHint":
			e.ReadOnly = string(value) == "true"
		case "idempotentHint":
			e.Idempotent = string(value) == "true"
		}
	}
}

// place returns the position of an item in its list, for a problem of an item without a
// name.
func place(i int) string { return "at place " + strconv.Itoa(i+1) }
