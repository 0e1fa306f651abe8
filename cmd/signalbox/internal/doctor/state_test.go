// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/code"
)

// A state folder that cannot be made is a finding. Nothing is left of the check.
func TestStateFolder(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {}\n")
	state := filepath.Join(e.Dir, "to", "be", "made")
	e.LookupEnv = func(name string) (string, bool) { return state, name == "XDG_STATE_HOME" }
	if f, found := checkState(e.Env, file); found {
		t.Errorf("a folder that can be made: %+v", f)
	}
	if left, err := os.ReadDir(e.Dir); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	state = filepath.Join(file, "below")
	f, found := checkState(e.Env, file)
	if !found || f.Code != code.StateReadonly || !strings.Contains(f.Text, file) {
		t.Errorf("a folder below a file: %+v", f)
	}
	e.LookupEnv = func(string) (string, bool) { return "", false }
	if f, found := checkState(e.Env, file); !found || !strings.Contains(f.Text, "home folder") {
		t.Errorf("without a home folder: %+v", f)
	}
}
