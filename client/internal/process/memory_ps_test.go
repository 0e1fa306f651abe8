// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"maps"
	"os"
	"syscall"
	"testing"
)

func TestParsePS(t *testing.T) {
	const out = "    1  1000\n   42   8\n42 4\n -1\n\nx 3\n 7 x\n"
	want := map[int]int64{1: 1000 << 10, 42: 12 << 10}
	if got := parsePS(out); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// ps measures the group of this process, and is not started again at once.
func TestPSMeasuresThisProcess(t *testing.T) {
	group, err := syscall.Getpgid(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var m psMemory
	got := m.measure()
	if n := got[group]; n < 1<<20 || n > 64<<30 {
		t.Errorf("the group of this process has %d bytes", n)
	}
	at := m.at
	if m.measure(); m.at != at {
		t.Error("ps was started again within a second")
	}
}
