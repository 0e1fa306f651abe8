// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package attach

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/serve"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
)

// A gateway of another version is used, and ends with its last client.
func TestOldGatewayIsReplaced(t *testing.T) {
	t.Parallel()
	e, gateway := commandtest.New(t, ""), commandtest.New(t, "")
	commandtest.WithState(t, e)
	gateway.LookupEnv = e.LookupEnv
	file := filepath.Join(e.Dir, "signalbox.yaml")
	commandtest.Write(t, file, "listen: 127.0.0.1:0\nmcpServers: {}\n")
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.Execute(t.Context(), serve.New(gateway.Env), "--config", file, "--end-when-idle", "1h")
	}()
	commandtest.AwaitText(t, gateway.Err, "listening on ", 1)
	folder, err := source.StateFolder(e.Env, file)
	if err != nil {
		t.Fatal(err)
	}
	own := &attacher{Env: e.Env, file: file, folder: folder, version: version.Program()}
	first, err := own.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := e.Err.String(); said != "" {
		t.Errorf("said %q", said)
	}
	newer := &attacher{Env: e.Env, file: file, folder: folder, version: "v9.9.9"}
	second, err := newer.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := e.Err.String(); !strings.Contains(said, "is version "+version.Program()+", and this command is v9.9.9") || !strings.Contains(said, "[SB_OLD_GATEWAY]") {
		t.Errorf("said %q", said)
	}
	_ = second.Close()
	if _, err := io.WriteString(first, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(first).ReadString('\n'); err != nil || !strings.Contains(got, `"result"`) {
		t.Errorf("got %s, %v", got, err)
	}
	_ = first.Close()
	if err := <-ended; err != nil {
		t.Errorf("the gateway ended with %v: %s", err, gateway.Err)
	}
}
