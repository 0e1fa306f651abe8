// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog merges the tools, resources, resource templates, prompts and skills of
// all backends into one immutable snapshot.
//
// Build makes a [Catalog] from the lists of the backends and the operator's rules for
// each of them. It is pure: no clock, no I/O, and the same input gives the same bytes.
// The gateway keeps the newest Catalog in an atomic pointer. Lists are encoded when the
// Catalog is built.
//
// # Names
//
// The name under which a tool or prompt is offered depends only on the rules of its
// backend and on its own name. See [Rules]. If two items would have the same name,
// neither is offered, or only the first in file order if the operator chose so.
//
// So no name moves because another backend came or went, as long as each backend has
// its own prefix, which is the default. Backends that share a prefix share names: a
// backend that is [Missing] does not take part in the assignment, so that the owner of
// a name can change until each of them has been reached once.
//
// Resource URIs and URI templates are locators and are not changed. If several backends
// offer the same one, the first in file order owns it. Those of the schemes ui and skill are
// names, and get the name of the backend in front, unless its prefix is empty. See
// [Rules.Label].
//
// # Items
//
// An item is passed on as the bytes of the backend, except for its name. An item that
// cannot be offered is left out alone, and a [Problem] gives the reason.
//
// # Decisions
//
// Each listed item gets one [Decision]: whether it is offered, or the rule by which it is not.
// Build and [Explain] share the functions that decide. A further rule belongs there, or into
// the function that both View and Explain take.
//
// # Views
//
// [Catalog.View] returns the Catalog as one principal sees it. It is a Catalog like any
// other, so that the listed items are exactly those that may be called: both are
// answered from the same table.
//
// [Catalog.Profile] returns the part of it that the operator has given a path of its own.
// It has other capabilities and instructions, too.
package catalog
