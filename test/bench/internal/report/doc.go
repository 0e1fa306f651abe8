// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes measurements as Markdown tables into the marked places of a page.
package report
