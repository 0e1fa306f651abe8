// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// The error reports how a child ended even if its exit is noticed late, and its last
// lines on stderr even if they are read later still. The wait for a child that keeps
// running is limited (M159).
func TestExitReasonWaits(t *testing.T) {
	const (
		status = "its process ended: exit status 7"
		silent = -1 // it never happens
		late   = exitWait - 1
	)
	tests := []struct {
		name        string
		exit, words time.Duration // after the previous event
		want        string
		took        time.Duration
	}{
		{"at once", 0, 0, status + "; its last lines on stderr: why", 0},
		{"busy machine", late, late, status + "; its last lines on stderr: why", 2 * late},
		{"another process holds its standard error", late, silent, status, late + exitWait},
		{"keeps running", silent, silent, "it closed its output", exitWait},
	}
	cmd := ended(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Child{Setup: &call.Setup{}, launcher: &Launcher{}, cmd: cmd, exited: make(chan struct{}), drained: make(chan struct{})}
				go func() { // ends after the last event; the bubble waits for it
					if tt.exit == silent {
						return
					}
					time.Sleep(tt.exit)
					close(c.exited)
					if tt.words == silent {
						return
					}
					time.Sleep(tt.words)
					c.stderr.add(stderrLine{raw: "why"})
					close(c.drained)
				}()
				began := time.Now()
				got, reason := c.ExitReason(call.OneClient)
				if reason != code.TalkExited {
					t.Errorf("code %q, want %q", reason, code.TalkExited)
				}
				if took := time.Since(began); got != tt.want || took != tt.took {
					t.Errorf("%q after %v, want %q after %v", got, took, tt.want, tt.took)
				}
			})
		})
	}
}

// ended returns a command that has ended with exit status 7.
func ended(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "exit 7")
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd
}

// D8- own: "A process inherits only the environment variables that are configured by
// name, and none of our secrets."
func TestEnvironment(t *testing.T) {
	got := Environment([]string{"PATH=/bin", "SECRET=x", "HOME=/h", "LANG=() { evil; }", "path=/other", "NOVALUE"}, []string{"SECRET=mine"})
	if want := []string{"PATH=/bin", "HOME=/h", "path=/other", "SECRET=mine"}; !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

// Package managers behind a proxy need it and its certificates. The password of a proxy is a
// secret.
func TestEnvironmentOfProxies(t *testing.T) {
	ours := []string{
		"HTTPS_PROXY=http://proxy:3128", "http_proxy=http://user:password@proxy:3128", "ALL_PROXY=token@proxy:1080", "no_proxy=localhost,.corp",
		"NODE_EXTRA_CA_CERTS=/etc/ca.pem", "SSL_CERT_FILE=/home/a@b/ca.pem", "SSL_CERT_DIR=/etc/ssl", "REQUESTS_CA_BUNDLE=/etc/ca.pem", "PROXY_PASSWORD=x",
	}
	want := []string{
		"HTTPS_PROXY=http://proxy:3128", "no_proxy=localhost,.corp",
		"NODE_EXTRA_CA_CERTS=/etc/ca.pem", "SSL_CERT_FILE=/home/a@b/ca.pem", "SSL_CERT_DIR=/etc/ssl", "REQUESTS_CA_BUNDLE=/etc/ca.pem", "http_proxy=mine",
	}
	if got := Environment(ours, []string{"http_proxy=mine"}); !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}
