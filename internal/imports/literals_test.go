// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/redact"
)

func TestLiterals(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"x.json": `{"mcpServers": {"a": {"command": "npx", "args": ["-y", "@scope/package", "--api-key", "not-real-1-abcdef", "--token=not-real-2-abcdef"],
			"env": {"FORGE": "not-real-3-abcdef"}, "headers": {"X": "Bearer not-real-4-abcdef"}, "url": "https://me:not-real-5-abcdef@example.com/?k=not-real-6-abcdef"}},
			"oauthToken": "not-real-7-abcdef"}`,
		"x.toml": "[mcp_servers.a]\ncommand = \"npx\"\nargs = [\"@scope/package\"]\nenv = {FORGE = \"not-real-8-abcdef\"}\n[mcp_servers.a.http_headers]\nX = \"not-real-9-abcdef\"\n",
		"x.yaml": "extensions:\n  a:\n    cmd: npx\n    args: ['@scope/package']\n    envs:\n      FORGE: not-real-10-abcdef\n",
	} {
		clean := redact.Of(imports.Literals(name, []byte(text))...).Text(text)
		if strings.Contains(clean, "not-real-") || !strings.Contains(clean, "@scope/package") {
			t.Errorf("%s:\n%s", name, clean)
		}
	}
	if got := imports.Literals("x.json", []byte("{")); got != nil {
		t.Errorf("%q", got)
	}
}
