// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/counts"
)

// roleVariable makes the test binary act as a started program.
const roleVariable = "BENCH_PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs the program of a role.
func play(role string) int {
	switch role {
	case "quits":
		fmt.Println("something went wrong")
		return 3
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	fmt.Println("starting\nlistening on " + l.Addr().String())
	go func() { _ = http.Serve(l, counts.Handler()) }()
	kept := bytes.Repeat([]byte("x"), 64<<20)
	for n := 0; ; n++ {
		kept[n%len(kept)]++
	}
}

func start(t *testing.T, role string) (*Process, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVariable, role)
	return Start(t.Context(), self)
}

func TestProcess(t *testing.T) {
	p, err := start(t, "serves")
	if err != nil {
		t.Fatal(err)
	}
	first, err := p.Usage()
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + p.Address + counts.Path
	var r Runtime
	var u Usage
	// The program works all the time, so all counters grow soon.
	for u.CPU < first.CPU+20*time.Millisecond || u.RSS < 64<<20 {
		if r, err = ReadRuntime(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		if u, err = p.Usage(); err != nil {
			t.Fatal(err)
		}
	}
	if u.Peak < u.RSS || u.Descriptors < 4 || r.Mallocs <= 0 || r.Heap <= 0 || r.Goroutines < 2 {
		t.Errorf("usage %+v, runtime %+v", u, r)
	}
	if err := p.ResetPeak(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.Log(), "starting") {
		t.Errorf("the log is %q", p.Log())
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := p.Usage(); err == nil {
		t.Error("a process that has ended has a usage")
	}
	if _, err := ReadRuntime(t.Context(), url); err == nil {
		t.Error("a process that has ended has a runtime")
	}
}

func TestStartSaysWhyItDidNot(t *testing.T) {
	if _, err := start(t, "quits"); err == nil || !strings.Contains(err.Error(), "something went wrong") {
		t.Errorf("got %v, want the program's last words", err)
	}
	if _, err := Start(t.Context(), "/nowhere/to/be/found"); err == nil {
		t.Error("no error for a program that is not there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(roleVariable, "serves")
	if p, err := Start(ctx, self); err == nil {
		// It may have started before.
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestReadRuntimeWantsAll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"+counts.Mallocs+" 1\n")
			c.Close()
		}
	}()
	if r, err := ReadRuntime(t.Context(), "http://"+l.Addr().String()); err == nil {
		t.Errorf("got %+v, want an error that names what is missing", r)
	}
}

func TestDescriptors(t *testing.T) {
	n, err := Descriptors()
	if err != nil || n < 64 {
		t.Errorf("%d and %v", n, err)
	}
}
