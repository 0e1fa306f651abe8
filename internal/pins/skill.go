// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

// Skill is the entry of a skill (SEP-2640), by the server's own URI of it. The entry has the digests of
// all files of the skill, so that a change of one is a change of the definition. Text of the skill that
// a model reads is in its files, and a part of it in the member frontmatter: neither is frozen, since
// the files that the server sends would not have the approved digests.
const Skill Kind = "skill"
