// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

//nolint:gochecknoglobals // what the processor has does not change
var hasSkip = hasAVX2()

// hasAVX2 reports whether skipBlocks can run: it looks at the processor and at the system.
func hasAVX2() bool

// skipBlocks skips what is plain in the text behind its first byte, and what is an escape
// of two bytes that is frequent (\n, \", \t), as long as there are 65 bytes more. The first
// byte must be no backslash of an escape. It returns how many bytes it has skipped, of which
// the last may be a backslash whose escape goes on behind it; not zero in high where some
// of them are beyond ASCII; and not zero in escapes where one is a backslash.
//
// skip_test.go holds it against a loop over single bytes.
//
//go:noescape
func skipBlocks(text []byte) (n int, high, escapes uint64)
