// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

//nolint:gochecknoglobals // what the processor has does not change
var hasSkip = hasAVX2()

// hasAVX2 reports whether the processor and the system support skipBlocks.
func hasAVX2() bool

// skipBlocks skips plain text after the first byte of text, and frequent escapes of two
// bytes (\n, \", \t), as long as 65 more bytes follow. The first byte must not be the
// backslash of an escape. It returns the number of skipped bytes, which may end with a
// backslash that begins an escape; high, not zero if some of them are not ASCII; and
// escapes, not zero if one is a backslash.
//
// skip_test.go compares it with a loop over single bytes.
//
//go:noescape
func skipBlocks(text []byte) (n int, high, escapes uint64)
