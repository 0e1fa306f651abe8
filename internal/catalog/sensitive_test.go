// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"testing"
)

// Arguments in headers are intended. One that seems to be a secret is reported, with
// its path, and the tool is offered unmodified: a client that follows the schema must
// send the header, and its server rejects calls without it.
//
// X11+ 2026-07-28 server/tools: "Properties **MAY** include an
// [`x-mcp-header`](#x-mcp-header) annotation to expose"
//
// X11- 2026-07-28 server/tools: "Server developers **SHOULD NOT** mark sensitive
// parameters (passwords, API keys, tokens, PII) with `x-mcp-header`, as header values are
// visible to network intermediaries."
func TestSecretsInHeadersAreReported(t *testing.T) {
	const told = `backend "a": tool "x": offered as it is: its argument %s seems to be a secret, but is sent in the header %s (x-mcp-header), which intermediaries can read` + "\n"
	for _, tt := range []struct{ properties, want string }{
		{`"region":{"type":"string","x-mcp-header":"Region"},"token":{"type":"string"}`, ""},
		{`"password":{"type":"string"}`, ""},
		{`"token":{"type":"string","x-mcp-header":"T"}`, fmt.Sprintf(told, `"token"`, "Mcp-Param-T")},
		{`"t":{"type":"string","x-mcp-header":"Api-Key"}`, fmt.Sprintf(told, `"t"`, "Mcp-Param-Api-Key")},
		{`"db":{"type":"object","properties":{"password":{"type":"string","x-mcp-header":"P"}}}`, fmt.Sprintf(told, `"db.password"`, "Mcp-Param-P")},
	} {
		listed, said := offers(t, `{"type":"object","properties":{`+tt.properties+`}}`)
		if !listed || said != tt.want {
			t.Errorf("%s: listed %v, said\n%s\nwant\n%s", tt.properties, listed, said, tt.want)
		}
	}
}
