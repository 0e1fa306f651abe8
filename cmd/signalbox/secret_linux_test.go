// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// openTerminal returns both sides of a terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	var number, unlock int32
	ioctl(t, master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	ioctl(t, master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func ioctl(t *testing.T, f *os.File, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		t.Fatal(errno)
	}
}

func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	var state syscall.Termios
	ioctl(t, f, syscall.TCGETS, unsafe.Pointer(&state))
	return state.Lflag&syscall.ECHO != 0
}

// The value does not appear on the terminal, which echoes again afterwards, also if the
// question is interrupted.
func TestSecretIsNotEchoed(t *testing.T) {
	t.Parallel()
	for _, interrupt := range []bool{false, true} {
		master, slave := openTerminal(t)
		e := commandtest.New(t, "")
		e.Stdin, e.Terminal = slave, func(any) bool { return true }
		commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), "mcpServers: {}\n")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		code := make(chan int, 1)
		go func() { code <- runCommand(ctx, e, "secret", "set", "TOKEN") }()
		for echoes(t, slave) && ctx.Err() == nil {
			runtime.Gosched()
		}
		if interrupt {
			e.Arrived <- syscall.SIGINT
		} else if _, err := master.WriteString("not-a-real-secret\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-code; got == exitOK == interrupt {
			t.Errorf("interrupt %v: exit code %d, said %s", interrupt, got, e.Err)
		}
		if !echoes(t, slave) {
			t.Errorf("interrupt %v: the terminal does not echo", interrupt)
		}
		text, err := os.ReadFile(filepath.Join(e.Dir, "secrets.env"))
		if !interrupt && (err != nil || string(text) != "TOKEN=not-a-real-secret\n") || interrupt && err == nil {
			t.Errorf("interrupt %v: %q, %v", interrupt, text, err)
		}
		// What was echoed comes before this.
		if _, err := slave.WriteString("end\n"); err != nil {
			t.Fatal(err)
		}
		shown := make([]byte, 1<<10)
		n, err := master.Read(shown)
		if err != nil || !strings.Contains(string(shown[:n]), "end") || strings.Contains(string(shown[:n]), "not-a-real") {
			t.Errorf("interrupt %v: the terminal shows %q, %v", interrupt, shown[:n], err)
		}
		if interrupt { // ends the read that is left
			if _, err := master.WriteString("\n"); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
}
