// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "os"

// MeasuresMemory reports whether GroupMemory works on this system.
const MeasuresMemory = true

// GroupMemory returns the resident memory of each process group, in bytes. Memory that
// processes share is counted in each of them.
func GroupMemory() map[int]int64 {
	groups := make(map[int]int64)
	page := int64(os.Getpagesize())
	for s := range allStats {
		groups[s.group] += s.pages * page
	}
	return groups
}
