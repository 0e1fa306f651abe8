// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"testing"
)

func TestIsSensitive(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "userPassword": true, "PASSWORD": true, "pass_phrase": true, "db.pwd": true, "api_key": true, "apiKey": true,
		"X-Api-Key": true, "accessKeyId": true, "token": true, "authToken": true, "client-secret": true, "JWT": true, "Authorization": true,
		"sessionCookie": true, "credentials": true, "refresh token 2": true,
		"region": false, "key": false, "issueKey": false, "maxTokens": false, "tokenizer": false, "pageToken": false, "next_page_token": false,
		"compass": false, "secretary": true, "author": false, "passenger": false, "": false, "1": false,
	} {
		if got := isSensitive(name); got != want {
			t.Errorf("%q is sensitive: %v, want %v", name, got, want)
		}
	}
}

// An argument that goes into a header is what it is for. One that seems to be a secret
// is told of, by its place, and the tool is offered as it came: a client that follows
// the schema must send the header, and its server refuses calls without it.
//
// X11+ 2026-07-28 server/tools: "Properties **MAY** include an
// [`x-mcp-header`](#x-mcp-header) annotation to expose"
//
// X11- 2026-07-28 server/tools: "Server developers **SHOULD NOT** mark sensitive
// parameters (passwords, API keys, tokens, PII) with `x-mcp-header`, as header values are
// visible to network intermediaries."
func TestSecretsInHeadersAreToldOf(t *testing.T) {
	const told = `backend "a": tool "x": offered as it is: its argument %s seems to be a secret, and goes into the header %s (x-mcp-header), where others on the way can read it` + "\n"
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
