// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog is what the gateway offers: the tools, resources, resource
// templates and prompts of all backends, as one immutable snapshot.
//
// Build makes a [Catalog] from the lists of the backends and from the rules that
// the operator gave each of them. It is pure: no clock, no I/O, and the same
// input gives the same bytes. Whoever serves keeps the newest Catalog in an
// atomic pointer; a list is a result that was encoded when the Catalog was built.
//
// # Names
//
// The name under which a tool or prompt is offered depends on the rules of its
// own backend and on its own name, and on nothing else. See [Rules]. Where two
// items would have one name, neither is offered, or the first in file order if the
// operator said so.
//
// So no name moves because another backend came or went, while each backend has a
// prefix of its own, which is the default. Backends that share a prefix share names:
// a backend that is [Missing] takes no part in who gets one, so that until each of
// them has been heard of once its owner can change.
//
// Resource URIs and URI templates are locators and stay as they are. Of several
// backends that offer the same one, the first in file order owns it.
//
// # Items
//
// An item is passed on as the bytes that came from the backend, but for its
// name. What cannot be offered is left out alone, and a [Problem] says why.
//
// # Views
//
// [Catalog.View] gives the Catalog as one principal sees it. It is a Catalog like
// any other, so that what is listed is what may be called: both are answered from
// the same table.
package catalog
