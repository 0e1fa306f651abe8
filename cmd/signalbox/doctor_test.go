// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// On a terminal, doctor --fix asks, and without a yes the file stays.
func TestDoctorFixAsks(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "n\n")
	e.Terminal = func(stream any) bool { return stream == e.Stdin }
	file := filepath.Join(e.Dir, "signalbox.yaml")
	const text = "listen: 127.0.0.1:0\nmcpServers: {a: {command: no-such-program -x}}\n"
	commandtest.Write(t, file, text)
	if code := runCommand(t.Context(), e, "doctor", "--fix"); code != exitFailed {
		t.Errorf("exit code %d: %s", code, e.Err)
	}
	want := "a: write command: no-such-program, args: [\"-x\"] into " + file + "? [y/N] "
	if said := e.Err.String(); !strings.HasPrefix(said, want) || !strings.HasSuffix(said, "signalbox: 1 server needs attention: a\n") {
		t.Errorf("said %q, want %q", said, want)
	}
	if got, err := os.ReadFile(file); string(got) != text || err != nil {
		t.Errorf("the file is %s, %v", got, err)
	}
}
