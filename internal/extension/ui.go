// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// PageType is the type of the pages of MCP Apps (ext-apps 2026-01-26), which a client that
// renders them declares.
const PageType = "text/html;profile=mcp-app"

// UICapability is the value of UI in the capabilities of a client that renders apps.
const UICapability = `{"mimeTypes":["` + PageType + `"]}`

// The members of a tool's _meta that name its page.
const (
	metaUI       = "ui"
	resourceURI  = "resourceUri"           // of metaUI
	metaPage     = "ui/resourceUri"        // as before the extension was stable
	metaTemplate = "openai/outputTemplate" // as hosts had it before the extension
)

// A Tool is what the _meta of a tool has about apps. The zero value is that of a tool
// without an app, which the model and all apps may call.
type Tool struct {
	HasPage       bool // it has a page to render with its result
	HasVisibility bool // its visibility is given

	NotForModel, NotForApp bool
}

// ReadTool reads the _meta of a tool. A visibility that is not a list counts as missing.
func ReadTool(meta []byte) Tool {
	var t Tool
	for name, value := range jsonscan.Members(meta) {
		switch name {
		case metaPage, metaTemplate:
			t.HasPage = t.HasPage || isText(value)
		case metaUI:
			t.readUI(value)
		}
	}
	return t
}

func (t *Tool) readUI(raw []byte) {
	t.HasVisibility, t.NotForModel, t.NotForApp = false, false, false
	for name, value := range jsonscan.Members(raw) {
		switch {
		case name == resourceURI:
			t.HasPage = t.HasPage || isText(value)
		case name == "visibility" && len(value) > 0 && value[0] == '[':
			t.HasVisibility, t.NotForModel, t.NotForApp = true, true, true
			for one := range jsonscan.Elements(value) {
				switch word, _ := jsonscan.DecodeText(one); word {
				case "model":
					t.NotForModel = false
				case "app":
					t.NotForApp = false
				}
			}
		}
	}
}

// ForModel reports whether the model may see and call the tool.
func (t Tool) ForModel() bool { return !t.NotForModel }

// ForApp reports whether an app of the same server may call the tool.
func (t Tool) ForApp() bool { return !t.NotForApp }

// IsOfApp reports whether the server of the tool has an app: the tool has a page, or is
// marked as for apps.
func (t Tool) IsOfApp() bool { return t.HasPage || t.HasVisibility && !t.NotForApp }

// Fence returns a tool with the visibility of the model alone, so that hosts refuse the
// calls of apps. A tool that has a visibility is returned unmodified.
func Fence(tool []byte) []byte {
	return withObject(tool, "_meta", func(meta []byte) []byte {
		if ReadTool(meta).HasVisibility {
			return meta
		}
		return withObject(meta, metaUI, func(ui []byte) []byte {
			return jsonscan.WithMember(without(ui, "visibility"), "visibility", []byte(`["model"]`))
		})
	})
}

// Strip returns a tool without everything about apps. A tool without is returned unmodified.
func Strip(tool []byte) []byte {
	return jsonscan.RewriteMembers(tool, func(name string, value []byte) []byte {
		if name != "_meta" || !isObject(value) {
			return value
		}
		return without(value, metaUI, metaPage, metaTemplate)
	})
}

// IsPage reports whether a URI is that of a page of an app.
func IsPage(uri string) bool { return hasScheme(uri, schemeUI) }

// withObject returns an object with one of its members, an object, changed. A member that is
// missing, or of another type, is changed as an empty object.
func withObject(object []byte, member string, change func([]byte) []byte) []byte {
	found := false
	changed := jsonscan.RewriteMembers(object, func(name string, value []byte) []byte {
		if name != member {
			return value
		}
		found = true
		if !isObject(value) {
			value = []byte("{}")
		}
		return change(value)
	})
	if found {
		return changed
	}
	return jsonscan.WithMember(object, member, change([]byte("{}")))
}

// without returns an object without some members.
func without(object []byte, names ...string) []byte {
	return jsonscan.RewriteMembers(object, func(name string, value []byte) []byte {
		if slices.Contains(names, name) {
			return nil
		}
		return value
	})
}

func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
