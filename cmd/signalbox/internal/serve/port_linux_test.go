// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// The process that uses the port is named, also in the error (fault 89). The test is not
// parallel: a process that another test starts has all sockets open until its exec.
func TestPortOwners(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d (%s)", os.Getpid(), strings.TrimSpace(string(comm)))
	if got := portOwners(l.Addr().String()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := explainListen(l.Addr().String(), syscall.EADDRINUSE).Error()
	if want := fmt.Sprintf("listen on %v: the port is in use by process %s; stop it, or choose another port with --listen", l.Addr(), want); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, addr := range []string{"127.0.0.1:0", "127.0.0.1:http", "nowhere", "127.0.0.1:70000"} {
		if got := portOwners(addr); got != "" {
			t.Errorf("%s: got %q", addr, got)
		}
	}
}
