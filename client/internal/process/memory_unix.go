// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package process

// MeasuresMemory reports whether GroupMemory works on this system.
const MeasuresMemory = true

//nolint:gochecknoglobals // of the whole system, as what it measures
var memory psMemory

// GroupMemory returns the resident memory of each process group, in bytes. Memory that
// processes share is counted in each of them. The map must not be changed.
func GroupMemory() map[int]int64 { return memory.measure() }
