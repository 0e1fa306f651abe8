// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// Apps is what becomes of MCP Apps (io.modelcontextprotocol/ui). The zero value is for clients
// that do not render them.
type Apps struct {
	// Render has the tools that are for apps alone listed and called: the catalog is for
	// clients that render apps. Without it they do not exist.
	Render bool

	// Fence gives the tools of backends without an app, and those of the gateway, the
	// visibility of the model alone. It applies with Render.
	Fence bool

	// Declare declares the extension to clients, also before a backend has an app: a client with a
	// session reads the capabilities once.
	Declare bool
}

// HasApp reports whether a backend of this name has an app: one of the tools that it lists has a
// page or is for apps. A backend with NoApps has none. That it declares the extension does not
// count: a gateway declares it always.
func (c *Catalog) HasApp(backend string) bool { return c != nil && c.apps[backend] }

// HasApps reports whether any backend has an app.
func (c *Catalog) HasApps() bool { return c != nil && len(c.apps) > 0 }

// AppTools returns the tools that apps may call by this name, which is their backends' own.
func (c *Catalog) AppTools(own string) []*Entry {
	var found []*Entry
	for e := range c.Entries(Tools) {
		mayCall := !e.IsOwn() && e.App.ForApp()
		if e.Own == own && mayCall && c.apps[e.BackendName] {
			found = append(found, e)
		}
	}
	return found
}

// judgeApps returns the verdict about an item by what it has to do with apps.
func (b *builder) judgeApps(k Kind, backend int, e *Entry) Verdict {
	off := b.in[backend].NoApps
	switch {
	case k == Tools && !e.App.ForModel() && (off || !b.opt.Apps.Render):
		return AppOnly
	case off && (k == Resources || k == Templates) && extension.IsPage(e.Own):
		return AppsOff
	default:
		return Offered
	}
}

// noteApp records that a backend has an app, if one of its tools shows it.
func (b *builder) noteApp(backend int, e *Entry) {
	if e.App.IsOfApp() && !b.in[backend].NoApps {
		b.apps[b.in[backend].Name] = true
	}
}

// noteAppNames records the own names of the tools of a backend that apps may call.
func (b *builder) noteAppNames(backend int, lists ...[]*Entry) {
	name := b.in[backend].Name
	if !b.apps[name] {
		return
	}
	var names []string
	for _, e := range slices.Concat(lists...) {
		if e.App.ForApp() {
			names = append(names, e.Own)
		}
	}
	b.appNames[name] = names
}

// AppNames returns the own names of the tools of a backend that apps may call, or nil if it has
// no app. It must not be changed.
func (c *Catalog) AppNames(backend string) []string {
	if c == nil {
		return nil
	}
	return c.appNames[backend]
}

// checkAppNames reports own names that tools of several backends have, which apps cannot call.
// Backends that have profiles of their own are called there.
func (b *builder) checkAppNames() {
	if len(b.appNames) < 2 {
		return
	}
	owner := make(map[string]string) // of the first tool with the name
	for i := range b.in {
		in := &b.in[i]
		for _, name := range b.appNames[in.Name] {
			first, taken := owner[name]
			switch {
			case !taken:
				owner[name] = in.Name
			case !b.hasOwnProfile(in.Name) || !b.hasOwnProfile(first):
				b.report.item(code.AppName, in.Name, Tools, name, fmt.Sprintf("backend %s has a tool of this name, too, so that apps can call neither by it; give each of them a profile of its own", quote(first)))
			}
		}
	}
}

// hasOwnProfile reports whether there is a profile of one backend alone.
func (b *builder) hasOwnProfile(backend string) bool {
	return slices.ContainsFunc(b.opt.Profiles, func(p Profile) bool { return len(p.Backends) == 1 && p.Backends[0] == backend })
}

// showApps changes the offered tools of a backend for clients that render apps, or of one with
// NoApps.
func (b *builder) showApps(backend int, tools []*Entry) {
	in := &b.in[backend]
	if in.NoApps {
		for _, e := range tools {
			e.item, e.App, e.uses = extension.Strip(e.item), extension.Tool{}, nil
		}
	}
	// With own names all tools are of one server, which is what a fence is for.
	if b.opt.Apps.fences() && !b.apps[in.Name] && !in.OwnNames {
		for _, e := range tools {
			e.item = extension.Fence(e.item)
		}
	}
}

// fences reports whether tools without an app get a visibility.
func (a Apps) fences() bool { return a.Render && a.Fence }

// showOwn returns a copy of a tool of the gateway as it is listed.
func (a Apps) showOwn(e *Entry) *Entry {
	own := *e
	if a.fences() {
		own.item = extension.Fence(e.item)
	}
	return &own
}

// isForApps reports whether a tool is also in the short list of a profile with a Finder,
// because clients that render apps look up the page of a tool there.
func (a Apps) isForApps(e *Entry) bool { return a.Render && e.App.IsOfApp() }

// extensionsCapability declares the extensions of the gateway, or returns "".
func extensionsCapability(tasks, apps bool, skills extension.SkillsOffer) string {
	var members []string // in their order
	if skills.Lists {
		members = append(members, skills.Setting())
	}
	if tasks {
		members = append(members, `"`+extension.Tasks+`":{}`)
	}
	if apps {
		members = append(members, `"`+extension.UI+`":{}`)
	}
	if members == nil {
		return ""
	}
	return `"` + extension.Member + `":{` + strings.Join(members, ",") + `}`
}
