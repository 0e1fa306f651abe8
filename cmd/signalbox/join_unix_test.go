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

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
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
		if name == commandtest.StateVariable {
			return state, true
		}
		return "", false
	}
	gateway, command := commandtest.New(t, ""), commandtest.New(t, "")
	gateway.LookupEnv, command.LookupEnv = lookup, lookup
	file := filepath.Join(gateway.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {}\n")

	stdin, toGateway := io.Pipe()
	fromGateway, stdout := io.Pipe()
	gateway.Stdin, gateway.Stdout = stdin, stdout
	code := make(chan int, 1)
	go func() { code <- runCommand(t.Context(), gateway, "serve", "--stdio", "--config", file) }()
	// After its response the socket exists.
	go func() {
		_, _ = io.WriteString(toGateway, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	}()
	if _, err := fromGateway.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, fromGateway) }()
	if folder, _ := source.StateFolder(command.Env, file); len(control.Sockets(folder)) != 1 {
		t.Error("the gateway has no socket")
	}
	if got := runCommand(t.Context(), command, "tools", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.Err)
	}
	if said := command.Err.String(); strings.Contains(said, "using the gateway") {
		t.Errorf("said %q", said)
	}
	// Its status can be asked for.
	if got := runCommand(t.Context(), command, "status", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.Err)
	}
	if want := fmt.Sprintf(" of process %d, up for ", os.Getpid()); !strings.Contains(command.Out.String(), want) {
		t.Errorf("printed %q, want %q", command.Out, want)
	}
	// It explains names, and starts nothing for that.
	if got := runCommand(t.Context(), command, "why", "nothing", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.Err)
	}
	if want := fmt.Sprintf("using the running gateway, process %d", os.Getpid()); !strings.Contains(command.Err.String(), want) {
		t.Errorf("said %q, want %q", command.Err, want)
	}
	toGateway.Close()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, gateway.Err)
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
	command := commandtest.New(t, "")
	command.LookupEnv = func(name string) (string, bool) { return state, name == commandtest.StateVariable }
	file := filepath.Join(command.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {}\n")
	folder, err := source.StateFolder(command.Env, file)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "killed"+control.SocketSuffix)})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	killed.Close()
	if len(control.Sockets(folder)) != 1 {
		t.Fatal("the socket is gone")
	}
	if got := runCommand(t.Context(), command, "tools", "--config", file); got != exitOK {
		t.Errorf("exit code %d: %s", got, command.Err)
	}
}
