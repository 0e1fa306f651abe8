// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/extension"
)

// Offered returns the name or URI that the item has outside of profiles with OwnNames, or would have
// there if no other item had it. Rules about items are about this name. It is Name in any other Catalog.
func (e *Entry) Offered() string {
	if e.offered == "" {
		return e.Name
	}
	return e.offered
}

// HasOwnNames reports whether the Catalog is that of a profile with OwnNames.
func (c *Catalog) HasOwnNames() bool { return c.one != nil }

// PassesExtensions reports whether the Catalog is that of a profile with PassesExtensions.
func (c *Catalog) PassesExtensions() bool { return c.passes }

// OfBackend returns what the only backend declares as its capabilities. The Catalog has own names.
func (c *Catalog) OfBackend() []byte { return c.one.Capabilities }

// offeredName returns the name or URI under which an item is offered outside of profiles with OwnNames.
func (in *Backend) offeredName(k Kind, own string) string {
	if k.named() {
		return in.Rules.name(in.Name, own)
	}
	return extension.OuterURI(in.Rules.Label(in.Name), own)
}

// label returns what the URIs of the backend have in front, for clients, if they are names.
func (in *Backend) label() string {
	if in.OwnNames {
		return ""
	}
	return in.Rules.Label(in.Name)
}

// name returns the name that clients use for an item.
func (in *Backend) name(k Kind, own string) string {
	if in.OwnNames {
		return own
	}
	return in.offeredName(k, own)
}

// withOwnNames is Profile for one with OwnNames. It is built from the backend alone: an item that another
// backend takes the name from in c has its own name here.
func (c *Catalog) withOwnNames(p *Profile) *Catalog {
	backends := p.within(c.backends)
	for i := range backends {
		backends[i].OwnNames = true
	}
	opt := c.opt
	opt.Profiles, opt.Patterns = nil, nil
	opt.Private = opt.Private || p.Finder != nil && p.Finder.Auto
	v := Build(backends, opt)
	v.problems = nil // as of any part of c
	if len(backends) != 1 {
		return v // the backend is disabled
	}
	v.one = &backends[0]
	v.passes = p.PassesExtensions
	if opt.Instructions == "" {
		v.instructions = ownInstructions(v.one)
	}
	if p.Finder != nil {
		v.withFinder(p.Finder)
	}
	return v
}

// nameOf returns the name that an entry of the whole Catalog has in the profile.
func (p *Profile) nameOf(e *Entry) string {
	if p.OwnNames {
		return e.Own
	}
	return e.Name
}

// OfferedAs returns the name that the item has outside of profiles with OwnNames, or would have there.
func (d *Decision) OfferedAs() string {
	if d.entry == nil {
		return d.Name
	}
	return d.entry.Offered()
}

// Alone returns the input of Build for a profile with OwnNames, with all other backends without items.
func (p *Profile) Alone(backends []Backend) []Backend {
	all := slices.Clone(backends)
	for i := range all {
		if p.Has(all[i].Name) {
			all[i].OwnNames = true
		} else {
			all[i] = Backend{Name: all[i].Name}
		}
	}
	return all
}
