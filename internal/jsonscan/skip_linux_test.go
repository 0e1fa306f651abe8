// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"os"
	"syscall"
	"testing"
)

// The text is between two pages that cannot be read.
func TestSkipReadsWithinTheText(t *testing.T) {
	page := os.Getpagesize()
	room, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(room) })
	for _, p := range [][]byte{room[:page], room[2*page:]} {
		if err := syscall.Mprotect(p, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	text := room[page : 2*page]
	for i := range text {
		text[i] = 'x'
	}
	for n := 1; n <= 300; n++ {
		checkSkip(t, text[:n], 1)
		checkSkip(t, text[page-n:], 1)
	}
	checkSkip(t, text, 1)
}
