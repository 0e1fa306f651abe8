// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bound has the filters of a configuration: what may be in the arguments of a call, and
// what of a result reaches the client.
//
// [Compile] compiles them. [Filters.Results] selects those for the results of an item, and
// [Results.Apply] applies them to the JSON text of a result: it replaces what patterns match, and
// encloses the text of a server in lines that name it. It changes texts only, so that the
// result has the same members, elements and numbers as before. [Filters.Refuse] decides about
// arguments.
//
// The package does no I/O. It knows neither the era nor the transport of a peer.
package bound
