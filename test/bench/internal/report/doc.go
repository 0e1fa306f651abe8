// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes what was measured as tables in Markdown, into the places of
// a page that are marked for them.
package report
