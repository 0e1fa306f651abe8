// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package safefile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: a new file has the permissions of its folder.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
