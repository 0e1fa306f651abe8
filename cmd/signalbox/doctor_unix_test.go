// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// Each way in which a server is broken has its own code, also with the default limits, and
// no process is left.
func TestDoctorFindsBrokenServers(t *testing.T) {
	t.Parallel()
	limitsOf := map[string]string{"short": "{handshake: 1s}"}
	if !testing.Short() {
		limitsOf["default"] = "{}"
	}
	for name, limits := range limitsOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			servers, held := writeBroken(t, e.Dir, limits)
			started := time.Now()
			if got := runCommand(t.Context(), e, "doctor", "--json"); got != exitFailed {
				t.Errorf("exit code %d, said %s", got, e.Err)
			}
			if took := time.Since(started); took > 16*time.Second {
				t.Errorf("took %v", took)
			}
			ends(t, held)
			var out struct {
				Findings []check.Finding `json:"findings"`
			}
			if err := json.Unmarshal([]byte(e.Out.String()), &out); err != nil {
				t.Fatalf("%v: %s", err, e.Out)
			}
			failed := 0
			for _, f := range out.Findings {
				if f.Kind == "server" && f.Result == check.Fail {
					if failed++; serverOf(f.Code) != f.Name || f.Fix == "" {
						t.Errorf("got %+v", f)
					}
					if strings.Contains(f.Text, "the log has") || f.Code == code.StartPackage && !strings.HasSuffix(f.Text, " (and 1 more)") {
						t.Errorf("there is no log: %s", f.Text)
					}
				}
				if f.Name == "good" && f.Result != check.OK {
					t.Errorf("got %+v", f)
				}
			}
			if failed != servers {
				t.Errorf("%d servers failed, want %d: %s", failed, servers, e.Out)
			}
		})
	}
}

// writeBroken writes a file with a server that works, and one for each way in which a server is broken,
// named after its code. They hold the pipe.
func writeBroken(t *testing.T, dir, limits string) (servers int, held *os.File) {
	t.Helper()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Not blocking, since no server holds it yet.
	held, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	script := func(text string) string {
		return fmt.Sprintf(`{command: sh, args: [-c, "exec 9>%s; %s"]}`, pipe, text)
	}
	broken := map[string]string{
		code.StartNotFound:   `{command: no-such-program}`,
		code.StartFolder:     `{command: sh, cwd: ` + filepath.Join(dir, "nowhere") + `}`,
		code.StartOneString:  `{command: "sh -c true"}`,
		code.StartPackage:    script("echo npm error code E404 >&2; echo npm error 404 Not Found >&2; exit 1"),
		code.StartNeedsValue: script("echo Error: EXAMPLE_API_KEY environment variable is required >&2; exit 1"),
		code.TalkSilent:      script("exec sleep 1000"),
		code.TalkOtherOutput: script("echo Starting server; sleep 1000 & wait"),
		code.TalkExited:      script("exit 1"),
	}
	file := "listen: 127.0.0.1:0\nlimits: " + limits + "\nmcpServers:\n  good: {command: mcpchild}\n"
	for _, of := range slices.Sorted(maps.Keys(broken)) {
		file += fmt.Sprintf("  %s: %s\n", serverOf(of), broken[of])
	}
	commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), file)
	return len(broken), held
}

// Servers end with the command, however it ends.
func TestDoctorEndsWhatItHasStarted(t *testing.T) {
	t.Parallel()
	endsServers(t, "doctor")
}

// endsServers tests that the servers of a command end with it.
func endsServers(t *testing.T, command ...string) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			// With its first request, the server is one that a kill of the command ends.
			commandtest.Write(t, filepath.Join(dir, "signalbox.yaml"), fmt.Sprintf(
				`mcpServers: {silent: {command: sh, args: [-c, "read -r request; exec 9>%s; trap '' TERM; sleep 1000 & wait"]}}`, pipe))
			p, err := startProcess(dir, os.Environ(), "signalbox", command...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.kill)
			held, err := os.Open(pipe) // waits for the server
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { held.Close() })
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			ends(t, held)
			want := exitFailed
			if sig == syscall.SIGKILL {
				want = -1
			}
			if got, err := p.finish(); got != want || err != nil {
				t.Errorf("exit code %d, %v, want %d: %s", got, err, want, p.all())
			}
		})
	}
}
