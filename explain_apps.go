// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
)

// appsAlone explains an item that only clients that render apps have, or none because apps are
// off.
func (x *explainer) appsAlone(it *ExplainedItem, d *catalog.Decision) {
	switch {
	case x.v.cfg.Apps.Off:
		it.step(x.places.Setting("false", "apps"), "apps: false")
		it.Fix = "remove apps: false"
	case x.in[d.Backend].NoApps:
		it.step(x.places.Server(d.BackendName, "false", "apps"), "apps: false")
		it.Fix = "remove apps: false"
	default:
		how, at := x.naming(d.Backend, d.Own)
		it.step(at, "%s", how)
		it.step(config.Place{}, "for apps alone (visibility in _meta.ui): clients that render apps have it, and no others")
		x.ofApp(it, d)
	}
}

// ofApp adds how the app of a server calls a tool.
func (x *explainer) ofApp(it *ExplainedItem, d *catalog.Decision) {
	if d.Kind != catalog.Tools || !x.v.catalog.HasApp(d.BackendName) {
		return
	}
	if d.App.HasPage {
		it.step(config.Place{}, "with a page, for clients that render apps")
	}
	switch owners := x.ownersOf(d.Own); {
	case !d.App.ForApp():
		it.step(config.Place{}, "not for apps (visibility in _meta.ui)")
	case len(owners) > 1:
		it.step(config.Place{}, "apps cannot call it: servers %s have a tool %q", enumerate(owners), d.Own)
		it.Fix = "give each of these servers a profile of its own"
	case d.Own != d.Name:
		it.step(config.Place{}, "apps call it %q", d.Own)
	}
}

// ownersOf returns the servers, of those that the explanation is about, with a tool that apps
// call by this name.
func (x *explainer) ownersOf(own string) []string {
	var owners []string
	for _, b := range x.seen.backends {
		if slices.Contains(x.v.catalog.AppNames(b.Name()), own) {
			owners = append(owners, b.Name())
		}
	}
	return owners
}
