// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command behind runs a client behind a gateway:
//
//	behind SIGNALBOX CLIENT [ARG...] URL
//
// It serves the server at the URL, alone and without a prefix, with the command signalbox,
// and runs the client with the gateway's address instead of the URL. This way the
// conformance suite, which can only start a client with the address of its own server,
// tests the messages of a gateway to servers.
//
// It fails if a secret of the client or of the scenario is in what the gateway has written. The
// variable BEHIND_LEAK makes the gateway write one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "behind:", err)
		os.Exit(1)
	}
}

// run returns when first the client and then the gateway have ended.
func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: behind SIGNALBOX CLIENT [ARG...] URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "behind")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command, url := args[1:len(args)-1], args[len(args)-1]
	gw, err := serve(ctx, args[0], dir, url)
	if err != nil {
		return err
	}
	// A list waits until the gateway has reached its server. A client that only connects
	// would end before that.
	list := exec.CommandContext(ctx, args[0], "tools", "--url", gw.url) //nolint:gosec // chosen by the user
	list.Stderr = os.Stderr
	front, stopFront, err := withToken(gw.url)
	if err != nil {
		return errors.Join(err, gw.end())
	}
	defer stopFront()
	client := exec.CommandContext(ctx, command[0], append(command[1:], front)...) //nolint:gosec // chosen by the user
	client.Stdout, client.Stderr = os.Stdout, os.Stderr
	return errors.Join(list.Run(), client.Run(), gw.end(), gw.leaks())
}

// patience is how long each of the two processes may take to end after the signal, and how
// long the first list waits for the server: a list without the server would be a correct
// response of the gateway, but not what is tested here.
const patience = 10 * time.Second

// stateFolder is the state folder of a gateway, in that of its files.
const stateFolder = "state"

// configure writes the configuration of a gateway with one server and no prefix.
func configure(dir, url string) (file string, err error) {
	server := map[string]any{"url": url, "prefix": ""}
	oauth, err := oauthOf(dir, os.Getenv(envScenario), os.Getenv(envContext))
	if err != nil {
		return "", err
	}
	if oauth != nil {
		server["oauth"] = oauth
	}
	servers := map[string]any{"suite": server}
	if leaky := leakingServer(filepath.Join(dir, stateFolder)); leaky != nil {
		servers["leaky"] = leaky
	}
	text, err := json.Marshal(map[string]any{
		"log":        map[string]any{"level": "debug"},
		"mcpServers": servers,
		"limits":     map[string]any{"firstList": patience.String()},
	})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "signalbox.json")
	return file, os.WriteFile(file, text, 0o600)
}

// gateway is a running gateway.
type gateway struct {
	url  string
	cmd  *exec.Cmd
	read chan struct{} // closed when all its output has been forwarded

	state  string        // its state folder
	output *bytes.Buffer // all of it, when read is closed
}

// listening precedes the address in the gateway's output.
const listening = "listening on "

// serve starts a gateway and returns when it listens.
func serve(ctx context.Context, signalbox, dir, url string) (*gateway, error) {
	file, err := configure(dir, url)
	if err != nil {
		return nil, err
	}
	gw := &gateway{state: filepath.Join(dir, stateFolder)}
	cmd := exec.CommandContext(ctx, signalbox, "serve", "--config", file, "--listen", "127.0.0.1:0") //nolint:gosec // chosen by the user
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+gw.state)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gw.cmd, gw.read, gw.output = cmd, make(chan struct{}), new(bytes.Buffer)
	lines := bufio.NewReader(io.TeeReader(output, gw.output))
	for gw.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("the gateway did not start listening: %w", errors.Join(err, cmd.Wait()))
		}
		fmt.Fprint(os.Stderr, line)
		if at, ok := strings.CutPrefix(line, listening); ok {
			gw.url = strings.TrimSpace(at)
		}
	}
	// Waited for by end; ends when the gateway has.
	go func() {
		defer close(gw.read)
		_, _ = io.Copy(os.Stderr, lines) // its last output is not needed
	}()
	return gw, nil
}

// end signals the gateway to end, and waits for it.
func (gw *gateway) end() error {
	if err := gw.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	kill := time.AfterFunc(patience, func() { _ = gw.cmd.Process.Kill() }) // it may have ended already
	defer kill.Stop()
	<-gw.read
	return gw.cmd.Wait()
}
