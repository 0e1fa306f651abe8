// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package serve

// portOwners returns nothing: only Linux has the information in files.
func portOwners(string) string { return "" }
