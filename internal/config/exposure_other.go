// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package config

// others tells nothing: the modes of this system do not say who can write a file.
func others([]step) []string { return nil }
