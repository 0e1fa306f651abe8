// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// A table has no hidden characters of a gateway. JSON has the values that the gateway has sent.
func TestListOfAnotherGateway(t *testing.T) {
	t.Parallel()
	const sent = `{"credentials": [{"backend": "wiki", "principal": "ann\u001b[1m", "issuer": "https://id.example.com"}]}`
	address, _ := commandtest.StatusServer(t, commandtest.Answering(200, "application/json", sent))
	for _, tt := range []struct{ flag, want string }{
		{"--json=false", `ann\x1b[1m`},
		{"--json", `"principal": "ann\u001b[1m"`},
	} {
		e := commandtest.New(t, "")
		if err := e.Execute(t.Context(), NewCredentials(e.Env), "--url", address.String(), tt.flag); err != nil {
			t.Fatal(err)
		}
		if got := e.Out.String(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.flag, got, tt.want)
		}
	}
}
