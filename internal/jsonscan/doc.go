// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonscan checks and changes JSON text without decoding it. Package mcp builds
// its messages on it.
//
// What the scanner accepts is RFC 8259 in valid UTF-8, and nothing else:
//
//   - Syntax: one value, without text after it, without a byte order mark. An unpaired
//     surrogate in an escape is accepted, because the grammar allows it.
//   - Duplicates: rejected in the objects that have a [Level], however their names are
//     escaped, and accepted in all others. A [Level] has the members that the protocol
//     defines, and in some of them a known name in another letter case is rejected too.
//   - Depth: at most [MaxDepth], and by default 128. The scanner does not recurse.
//   - Sizes: by default 100,000 members in all objects together; 64 KiB for the name of a
//     member; 1 KiB for an id; 4 GiB for the text, because positions have 32 bits.
//   - Work: linear in the length of the text.
//
// An [Error] has the offset, the reason and the cure. It is the first one in the text.
//
// No function copies text unless it says so, and none changes its input. An [Object]
// and what [Members], [Elements] and [SplitBatch] return share the memory of the text,
// which must not be changed afterwards. What Append functions return belongs to the
// caller.
//
// The types:
//
//   - [Scanner] checks a text at given offsets. It is the base of the others.
//   - [Object] has the positions of an object's known members. [ParseObject] makes it,
//     [Edit] changes members and leaves all other bytes alone.
//   - [Arrival] reads a response while it arrives, and writes its result onwards with a
//     few changes, in constant memory.
//   - [Members], [Elements], [RewriteMembers] and [RewriteElements] walk over text that
//     has been checked.
//
// Strings are the bulk of most messages. The scanner skips them in words of eight
// bytes, and on amd64 with AVX2 64 bytes at a time.
//
// The package imports the standard library only.
package jsonscan
