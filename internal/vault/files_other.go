// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package vault

import "io/fs"

const openFlags = 0

// checkPrivate returns nothing: file modes do not determine access on this system.
func checkPrivate(string, fs.FileInfo, string) error { return nil }

// syncFolder does nothing: folders cannot be synced on this system.
func syncFolder(string) error { return nil }
