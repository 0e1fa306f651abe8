// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

// exposed says which argument of a tool goes into a header although its name says
// that it is a secret, or "": "Server developers SHOULD NOT mark sensitive parameters
// (passwords, API keys, tokens, PII) with x-mcp-header, as header values are visible
// to network intermediaries" (2026-07-28, server/tools). The operator is told. The
// annotation stays: a name is no proof, and a server that has one refuses calls
// without the header, which its clients have to send.
func (e *Entry) exposed() string {
	for _, p := range e.ParamHeaders {
		if argument := p.Path[len(p.Path)-1]; redact.IsSecretName(argument) || redact.IsSecretName(p.Name) {
			return fmt.Sprintf("its argument %s seems to be a secret, and goes into the header %s (x-mcp-header), where others on the way can read it",
				quote(strings.Join(p.Path, ".")), p.Header())
		}
	}
	return ""
}
