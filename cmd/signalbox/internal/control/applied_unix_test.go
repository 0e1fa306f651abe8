// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package control_test

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
)

// A gateway that is killed while its reload is waited for has not failed to apply the change.
func TestKilledGatewayIsNotReported(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	commandtest.WithState(t, e)
	file := filepath.Join(e.Dir, "signalbox.yaml")
	folder, err := source.MakeStateFolder(e.Env, file)
	if err != nil {
		t.Fatal(err)
	}
	var stop func()
	stop = commandtest.Gateway(t, folder, "one"+control.SocketSuffix, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"process": 7}`)
	}))
	if err := control.PrintReloads(t.Context(), e.Env, file, time.Now(), func(*signalbox.Status) bool { return true }); err != nil || e.Out.String() != "" {
		t.Errorf("printed %q, error %v", e.Out, err)
	}
}
