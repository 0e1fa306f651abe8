// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// With --connect, each broken server is a problem with its code and its line, also with the default limits, and no
// process is left.
func TestCheckConnectFindsBrokenServers(t *testing.T) {
	t.Parallel()
	limitsOf := map[string]string{"short": "{handshake: 1s}"}
	if !testing.Short() {
		limitsOf["default"] = "{}"
	}
	problem := regexp.MustCompile(`(?m)^signalbox\.yaml:\d+:3: backend "(\w+)": .* \[(SB_\w+)\]$`)
	for name, limits := range limitsOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := commandtest.New(t, "")
			servers, held := writeBroken(t, e.Dir, limits)
			started := time.Now()
			if got := runCommand(t.Context(), e, "check", "--connect"); got != exitFailed {
				t.Errorf("exit code %d, said %s", got, e.Err)
			}
			if took := time.Since(started); took > 16*time.Second {
				t.Errorf("took %v", took)
			}
			ends(t, held)
			// Of these the configuration of the servers has to change, and the others may work later.
			const want = "signalbox: check signalbox.yaml: 6 problems; 2 problems, which may pass without a change\n"
			out := strings.ReplaceAll(e.Out.String(), e.Dir+string(filepath.Separator), "")
			if said := strings.ReplaceAll(e.Err.String(), e.Dir+string(filepath.Separator), ""); said != want {
				t.Errorf("said %q, want %q", said, want)
			}
			failed := problem.FindAllStringSubmatch(out, -1)
			for _, f := range failed {
				if serverOf(f[2]) != f[1] {
					t.Errorf("got %s", f[0])
				}
			}
			if len(failed) != servers || !strings.Contains(out, "signalbox.yaml: 8 problems, 9 backends: 1 tool ") {
				t.Errorf("%d servers failed, want %d: %s", len(failed), servers, out)
			}
		})
	}
}

// Servers end with the command, however it ends.
func TestCheckConnectEndsWhatItHasStarted(t *testing.T) {
	t.Parallel()
	endsServers(t, "check", "--connect")
}
