// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admin_test

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/admin"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A gateway that refuses the change of a server does not keep the others from it.
func TestChangeReachesAllGateways(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	commandtest.WithState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "mcpServers: {}\n")
	folder, err := source.MakeStateFolder(e.Env, file)
	if err != nil {
		t.Fatal(err)
	}
	for name, result := range map[string]string{
		"a": `{"process": 7, "unknown": true}`,
		"b": `{"process": 8, "backend": {"name": "wiki", "state": "live"}}`,
	} {
		commandtest.Gateway(t, folder, name+control.SocketSuffix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := result
			if r.Method == http.MethodGet {
				text = `{"process": 7}`
			}
			_, _ = io.WriteString(w, text)
		}))
	}
	for _, cmd := range admin.NewServerCommands(e.Env) {
		if cmd.Name() == "retry" {
			err = e.Execute(t.Context(), cmd, "--config", file, "wiki")
		}
	}
	if err == nil || !strings.Contains(err.Error(), "process 7: the configuration in use has no enabled server") {
		t.Errorf("error %v", err)
	}
	if got, want := e.Out.String(), "wiki is live, no items\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
