// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

// MeasuresMemory reports whether GroupMemory works on this system.
const MeasuresMemory = false

// GroupMemory returns nothing here.
func GroupMemory() map[int]int64 { return nil }
