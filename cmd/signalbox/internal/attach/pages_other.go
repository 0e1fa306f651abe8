// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package attach

// releaseStartPages does nothing.
func releaseStartPages() {}
