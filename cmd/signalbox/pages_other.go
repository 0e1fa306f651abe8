// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// releaseStartPages does nothing.
func releaseStartPages() {}
