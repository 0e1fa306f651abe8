// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// serverOf returns the name of the server that has a code.
func serverOf(code string) string { return strings.ToLower(code) }

// Each way in which a server is broken has its own code, in the status, in the log and in
// the error of a call. It stays when the server was tried so often that it is not started
// for a while, and when the configuration was loaded again.
func TestBrokenServersKeepTheirCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	servers := map[string]string{
		code.StartNotFound:   `{command: no-such-program}`,
		code.StartFolder:     `{command: sh, cwd: ` + filepath.Join(dir, "nowhere") + `}`,
		code.StartOneString:  `{command: "sh -c true"}`,
		code.StartPackage:    `{command: sh, args: [-c, "echo npm error code E404 >&2; echo npm error 404 Not Found >&2; exit 1"]}`,
		code.StartNeedsValue: `{command: sh, args: [-c, "echo Error: EXAMPLE_API_KEY environment variable is required >&2; exit 1"]}`,
		code.TalkSilent:      `{command: sleep, args: ["1000"]}`,
		code.TalkOtherOutput: `{command: sh, args: [-c, "echo Starting server; exec sleep 1000"]}`,
		code.TalkExited:      `{command: "false"}`,
	}
	config := "listen: 127.0.0.1:0\nlimits: {handshake: 1s}\nmcpServers:\n"
	for _, of := range slices.Sorted(maps.Keys(servers)) {
		config += fmt.Sprintf("  %s: %s\n", serverOf(of), servers[of])
	}
	commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), config)
	gw, err := startProcess(dir, os.Environ(), "signalbox", "serve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gw.kill()
		if t.Failed() {
			t.Logf("the gateway said:\n%s", gw.all())
		}
	})
	at, err := gw.expect(`(http://127\.0\.0\.1:\d+)/mcp`)
	if err != nil {
		t.Fatal(err)
	}
	url := at[1]
	awaitCodes(t, url, servers, func(b brokenStatus) bool { return b.State == "down" })
	for of := range servers {
		checkCallCode(t, url, of)
	}
	circuit := func(b brokenStatus) bool {
		return b.Name != serverOf(code.TalkExited) || strings.Contains(b.Reason, "its process ended 5 times")
	}
	awaitCodes(t, url, servers, circuit)
	if err := gw.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := gw.expect("configuration reloaded"); err != nil {
		t.Fatal(err)
	}
	awaitCodes(t, url, servers, circuit)
	for of := range servers {
		checkCallCode(t, url, of)
		records := 0
		for line := range strings.Lines(gw.all()) {
			if !strings.Contains(line, "backend not reachable") || !strings.Contains(line, "backend="+serverOf(of)+" ") {
				continue
			}
			if records++; !strings.Contains(line, "code="+of+" ") {
				t.Errorf("%s: the log has %s", of, line)
			}
		}
		if records != 1 {
			t.Errorf("%s: %d records of the failure, want 1", of, records)
		}
	}
}

type brokenStatus struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// awaitCodes waits until is holds for each server, and checks that each has its code.
func awaitCodes(t *testing.T, url string, servers map[string]string, is func(brokenStatus) bool) {
	t.Helper()
	for deadline := time.Now().Add(commandtest.Patience); ; <-time.After(50 * time.Millisecond) {
		var s struct {
			Backends []brokenStatus `json:"backends"`
		}
		if err := json.Unmarshal(exchange(t, http.MethodGet, url+"/status", ""), &s); err != nil {
			t.Fatal(err)
		}
		waiting := slices.IndexFunc(s.Backends, func(b brokenStatus) bool { return !is(b) })
		if waiting >= 0 && time.Now().After(deadline) {
			t.Fatalf("waited in vain for %+v", s.Backends[waiting])
		}
		if waiting >= 0 {
			continue
		}
		if len(s.Backends) != len(servers) {
			t.Errorf("%d servers, want %d", len(s.Backends), len(servers))
		}
		for _, b := range s.Backends {
			if serverOf(b.Code) != b.Name {
				t.Errorf("%s has the code %q: %s", b.Name, b.Code, b.Reason)
			}
		}
		return
	}
}

// checkCallCode checks the code in the error of a call to the server.
func checkCallCode(t *testing.T, url, want string) {
	t.Helper()
	tool := serverOf(want) + "__x"
	body := exchange(t, http.MethodPost, url+"/mcp", commandtest.CallOf(tool), commandtest.CallHeader(tool)...)
	var answer struct {
		Error struct {
			Data struct {
				Code string `json:"code"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error.Data.Code != want {
		t.Errorf("%s: the call was answered with %s, %v", want, body, err)
	}
}

// exchange sends a request with some headers and returns the body of the response.
func exchange(t *testing.T, method, url, body string, header ...[2]string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandtest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range header {
		req.Header.Set(f[0], f[1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
