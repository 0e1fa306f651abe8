// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// secretHeader returns a message if an argument that seems to be a secret, by its name,
// is mirrored into a header, or "": "Server developers SHOULD NOT mark sensitive
// parameters (passwords, API keys, tokens, PII) with x-mcp-header, as header values are
// visible to network intermediaries" (2026-07-28, server/tools). The annotation is
// kept: a name is no proof, and the server rejects calls without the header.
func (e *Entry) secretHeader() string {
	for _, p := range e.ParamHeaders {
		if argument := p.Path[len(p.Path)-1]; redact.IsSecretName(argument) || redact.IsSecretName(p.Name) {
			return fmt.Sprintf("its argument %s seems to be a secret, but is sent in the header %s (x-mcp-header), which intermediaries can read",
				quote(strings.Join(p.Path, ".")), p.Header())
		}
	}
	return ""
}
