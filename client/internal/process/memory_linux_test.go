// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 7 42 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000000 250 18446744073709551615 1 1"
	for _, name := range []string{"(sh)", "(a b)", "(x) S 1 (y))", "()"} {
		if group, pages, ok := parseStat([]byte("12 " + name + rest)); group != 42 || pages != 250 || !ok {
			t.Errorf("%s: group %d, %d pages, %v", name, group, pages, ok)
		}
	}
	for _, raw := range []string{"", "12 (sh) S 7 42", "12 (sh) S 7 x 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000000 250"} {
		if group, pages, ok := parseStat([]byte(raw)); ok {
			t.Errorf("%q: group %d, %d pages", raw, group, pages)
		}
	}
}

func TestGroupMemoryOfThisProcess(t *testing.T) {
	group, err := syscall.Getpgid(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n := GroupMemory()[group]; n < 1<<20 {
		t.Errorf("the group of this process has %d bytes", n)
	}
}
