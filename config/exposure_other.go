// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package config

import "io/fs"

// otherUsers returns nothing: file modes do not determine access on this system.
func otherUsers([]step) []string { return nil }

// privacyProblem returns nothing: file modes do not determine access on this system.
func privacyProblem(string, fs.FileInfo) (problem, hint string) { return "", "" }
