// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision knows what each revision of the specification is able to say,
// and says what it lacks in what it has.
//
// The inside speaks the newest revision. Both edges translate: the server's what goes
// to a client that speaks an older one, the client's what a server of an older one is
// told. That a member is unknown to a revision is no reason to take it away: a reader
// passes over it, and bytes that nobody touched are bytes that nobody spoiled. What
// is translated is what readers of the time refuse, a whole result for the sake of one
// item of it: types of content that their revision does not have, structured content
// and schemas that are no objects. What a client has declared it is asked, whether its
// revision names that or not.
//
//	                          2024-11-05  2025-03-26  2025-06-18  2025-11-25  2026-07-28
//	audio content             -           yes         yes         yes         yes
//	links to resources        -           -           yes         yes         yes
//	structured content        -           -           objects     objects     any JSON
//	output schemas            -           -           of objects  of objects  any
//	false and true as schemas -           -           -           -           yes
//	icons                     -           -           -           yes         yes
//	completions declared      -           yes         yes         yes         yes
//	extensions                -           -           -           -           yes
//
// The package is pure.
package revision
