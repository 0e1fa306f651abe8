// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// Of what npm 7 to 11 write, the errors of calls have what is wrong, and besides it what the
// server itself wrote.
func TestEssential(t *testing.T) {
	for name, tt := range map[string]struct{ lines, want string }{
		"unknown package": {`npm error code E404
npm error 404 Not Found - GET https://registry.example.com/@x%2fno-such-thing
npm error 404
npm error 404  The requested resource '@x/no-such-thing@*' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-11-26T00_29_22_284Z-debug-0.log`,
			`npm error 404 Not Found - GET https://registry.example.com/@x%2fno-such-thing`},
		"unknown version": {`npm error code ETARGET
npm error notarget No matching version found for @x/y@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting a package version that doesn't exist.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/2026-11-26T00_29_22_907Z-debug-0.log`,
			`npm error notarget No matching version found for @x/y@99.0.0.`},
		"no network": {`npm ERR! code ENOTFOUND
npm ERR! syscall getaddrinfo
npm ERR! errno ENOTFOUND
npm ERR! network request to https://registry.example.com/x failed, reason: getaddrinfo ENOTFOUND registry.example.com
npm ERR! network This is a problem related to network connectivity.`,
			`npm ERR! network request to https://registry.example.com/x failed, reason: getaddrinfo ENOTFOUND registry.example.com`},
		"the server failed": {`npm warn exec The following package was not found and will be installed: x@1.0.0
Error: API_KEY is required
npm error code 1
npm error path /app
npm error command failed
npm error command sh -c x`,
			"Error: API_KEY is required\nnpm error command failed"},
		"only parts":      {"npm error code E404\nnpm error 404", "npm error code E404\nnpm error 404"},
		"another program": {"one\ntwo", "one\ntwo"},
		"nothing":         {"", ""},
	} {
		if got := strings.Join(essential(strings.Split(tt.lines, "\n")), "\n"); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}

// The error refers to the log for what it leaves out.
func TestExitReasonOfNPM(t *testing.T) {
	c := &Child{Setup: &call.Setup{}, launcher: &Launcher{}, cmd: ended(t), exited: make(chan struct{}), drained: make(chan struct{})}
	close(c.exited)
	close(c.drained)
	for _, line := range []string{"npm error code ETARGET", "npm error notarget No matching version found for x@9.", "npm error notarget In most cases"} {
		c.stderr.add(stderrLine{raw: line})
	}
	began := time.Now()
	got, _ := c.ExitReason(call.OneClient)
	want := "its process ended: exit status 7; its last lines on stderr: npm error notarget No matching version found for x@9. (the log has 2 more)"
	if got != want || time.Since(began) >= exitWait {
		t.Errorf("got %q, want %q", got, want)
	}
	if lines := c.stderr.lines(nil); !slices.Contains(lines, "npm error code ETARGET") {
		t.Errorf("kept %q", lines)
	}
}
