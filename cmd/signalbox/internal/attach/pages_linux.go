// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseStartPages unmaps the pages of the program that its start has touched: most of
// the memory of a process that does little. The pages that are needed again are mapped
// from the page cache. It does nothing if that is not possible.
func releaseStartPages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Text()
		if !strings.HasSuffix(line, program) {
			continue
		}
		var from, to uintptr
		var access string
		// Written pages are private, and would be lost.
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); n == 3 && !strings.Contains(access, "w") {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // an optimization
		}
	}
}
