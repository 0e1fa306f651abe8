// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package config

// otherUsers returns nothing: file modes do not determine access on this system.
func otherUsers([]step) []string { return nil }
