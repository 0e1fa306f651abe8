// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A gateway of one client on stdio is not joined: its backends' processes belong to that
// client.
func TestGatewayOfOneClientIsNotJoined(t *testing.T) {
	t.Parallel()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	lookup := func(name string) (string, bool) {
		if name == stateVariable {
			return state, true
		}
		return "", false
	}
	gateway, command := newTestEnv(t, ""), newTestEnv(t, "")
	gateway.LookupEnv, command.LookupEnv = lookup, lookup
	file := filepath.Join(gateway.Dir, "signalbox.yaml")
	write(t, file, "mcpServers: {}\n")

	stdin, toGateway := io.Pipe()
	fromGateway, stdout := io.Pipe()
	gateway.Stdin, gateway.Stdout = stdin, stdout
	code := make(chan int, 1)
	go func() { code <- gateway.run(t.Context(), "serve", "--stdio", "--config", file) }()
	// After its response the socket exists.
	go func() {
		_, _ = io.WriteString(toGateway, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	}()
	if _, err := fromGateway.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, fromGateway) }()
	if folder, _ := command.stateFolder(file); len(socketsIn(folder)) != 1 {
		t.Error("the gateway has no socket")
	}
	if got := command.run(t.Context(), "tools", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.err)
	}
	if said := command.err.String(); strings.Contains(said, "using the gateway") {
		t.Errorf("said %q", said)
	}
	// Its status can be asked for.
	if got := command.run(t.Context(), "status", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.err)
	}
	if want := fmt.Sprintf(" of process %d, up for ", os.Getpid()); !strings.Contains(command.out.String(), want) {
		t.Errorf("printed %q, want %q", command.out, want)
	}
	// It explains names, and starts nothing for that.
	if got := command.run(t.Context(), "why", "nothing", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.err)
	}
	if want := fmt.Sprintf("using the running gateway, process %d", os.Getpid()); !strings.Contains(command.err.String(), want) {
		t.Errorf("said %q, want %q", command.err, want)
	}
	toGateway.Close()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, gateway.err)
	}
	stdout.Close()
}

// The socket of a gateway that was killed does not keep a command from starting the backends.
func TestGatewayThatWasKilledIsNotJoined(t *testing.T) {
	t.Parallel()
	state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	command := newTestEnv(t, "")
	command.LookupEnv = func(name string) (string, bool) { return state, name == stateVariable }
	file := filepath.Join(command.Dir, "signalbox.yaml")
	write(t, file, "mcpServers: {}\n")
	folder, err := command.stateFolder(file)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "killed"+socketSuffix)})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	killed.Close()
	if len(socketsIn(folder)) != 1 {
		t.Fatal("the socket is gone")
	}
	if got := command.run(t.Context(), "tools", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.err)
	}
}
