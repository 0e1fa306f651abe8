// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/extension"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Extension is the identifier of the extension.
const Extension = extension.Tasks

// Declared reports whether a capabilities object, of a client or a server, declares the
// extension.
func Declared(capabilities []byte) bool {
	return isObject(find(find(capabilities, "extensions"), Extension))
}

// DeclaredOthers reports whether a capabilities object declares any other extension that may
// define types of results. Those that the gateway translates define none.
func DeclaredOthers(capabilities []byte) bool {
	all, err := read(find(capabilities, "extensions"))
	return err == nil && slices.ContainsFunc(all, func(m member) bool {
		return m.name != Extension && !extension.IsTranslated(m.name)
	})
}

// Declare returns the capabilities object with the extension declared. Invalid
// capabilities are replaced.
func Declare(capabilities []byte) []byte {
	if Declared(capabilities) {
		return capabilities
	}
	all, err := read(capabilities)
	if err != nil {
		all = nil
	}
	extensions, err := read(all.get("extensions"))
	if err != nil {
		extensions = nil
	}
	extensions = extensions.with(Extension, []byte("{}"))
	return all.with("extensions", extensions.bytes()).bytes()
}

// An Offer is what a server declares about tasks, in the form of either era.
type Offer struct {
	Extension bool // it declares the extension
	Calls     bool // 2025-11-25: tasks.requests.tools.call
	List      bool // 2025-11-25: tasks.list
	Cancel    bool // 2025-11-25: tasks.cancel
}

// Any reports whether tools can be called as tasks.
func (o Offer) Any() bool { return o.Extension || o.Calls }

// OfferOf reads a server's capabilities.
func OfferOf(capabilities []byte) Offer {
	own := find(capabilities, "tasks")
	return Offer{
		Extension: Declared(capabilities),
		Calls:     isObject(find(find(find(own, "requests"), "tools"), "call")),
		List:      isObject(find(own, "list")),
		Cancel:    isObject(find(own, "cancel")),
	}
}

// legacyOffer returns the member "tasks" for a client of 2025-11-25, or nil if there
// are no tasks. For a Handler that declares only the extension it has no list, because
// the extension has none.
func legacyOffer(capabilities []byte) []byte {
	switch o := OfferOf(capabilities); {
	case o.Calls:
		return find(capabilities, "tasks")
	case o.Extension:
		return []byte(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	default:
		return nil
	}
}

// ModernOffer returns a server's capabilities for a modern client: with the extension
// if tools can be called as tasks, and without the member of 2025-11-25. Capabilities
// that need no change are returned unmodified.
func ModernOffer(capabilities []byte) []byte {
	if OfferOf(capabilities).Calls {
		capabilities = Declare(capabilities)
	}
	return WithoutOwn(capabilities)
}

// WithoutOwn returns a client's capabilities without the tasks that the client itself
// would run for a server (2025-11-25), which the gateway cannot follow. Capabilities that
// need no change are returned unmodified.
func WithoutOwn(capabilities []byte) []byte {
	all, err := read(capabilities)
	if err != nil || all.get("tasks") == nil {
		return capabilities
	}
	return all.without("tasks").bytes()
}

// Missing returns the error for a client that did not declare the extension (tasks,
// "Capability Negotiation").
func Missing(method string) *mcp.Error {
	return &mcp.Error{
		Code:    mcp.CodeMissingCapability,
		Message: method + " needs a client that declares the extension " + Extension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + Extension + `":{}}}}`),
	}
}

// IsMissing reports whether the error means that the server serves the request only as
// a task, and that its client did not declare the extension.
func IsMissing(e *mcp.Error) bool {
	return e.Code == mcp.CodeMissingCapability && Declared(find(jsontext.Value(e.Data), "requiredCapabilities"))
}

// Watches reports whether the filter of a subscriptions/listen names tasks.
func Watches(filter []byte) bool { return find(filter, "taskIds") != nil }

// WithLegacyOffer returns a server's capabilities with the member "tasks" in the form
// of 2025-11-25: the Handler's own, or the equivalent of the extension. A member that
// offers nothing is removed.
func WithLegacyOffer(capabilities []byte) []byte {
	offer := legacyOffer(capabilities)
	all, err := read(capabilities)
	if offer == nil || err != nil {
		return WithoutOwn(capabilities)
	}
	return all.with("tasks", offer).bytes()
}
