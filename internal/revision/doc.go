// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision converts messages between the revisions of the specification: it
// expresses features that a revision lacks by those that it has.
//
// The gateway uses the newest revision internally. Both edges translate: the server for
// clients of older revisions, the client for servers of older revisions. A member that
// a revision does not know is no reason for a change: readers ignore it, and unmodified
// bytes cannot be damaged. The package converts only what older readers reject, often
// the whole result because of one item: types of content that their revision lacks, and
// structured content and schemas that are not objects. A client is sent every request
// for which it declared the capability, even if its revision does not define it.
//
//	                          2024-11-05  2025-03-26  2025-06-18  2025-11-25  2026-07-28
//	audio content             -           yes         yes         yes         yes
//	links to resources        -           -           yes         yes         yes
//	structured content        -           -           objects     objects     any JSON
//	output schemas            -           -           of objects  of objects  any
//	false and true as schemas -           -           -           -           yes
//	icons                     -           -           -           yes         yes
//	completions declared      -           yes         yes         yes         yes
//	extensions                translated  translated  translated  translated  yes
//
// The package is pure.
package revision
