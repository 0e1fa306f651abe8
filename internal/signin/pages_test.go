// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Values of others are escaped on each page: names of servers, hosts, scopes and reasons.
func TestPagesEscapeValues(t *testing.T) {
	const evil = `"><script>alert('x')</script>&`
	for name, c := range map[string]content{
		"start":    startPage{Action: evil, Principal: evil, Backend: evil, Server: evil, Issuer: evil, Previous: evil, Scopes: []string{evil}},
		"identify": formPage{Action: evil, IsWrong: true},
		"message":  messagePage{Text: evil, Again: evil},
	} {
		w := httptest.NewRecorder()
		writePage(w, 200, evil, c)
		text := w.Body.String()
		if strings.Contains(text, "<script") || strings.Contains(text, `"">`) || strings.Contains(text, "alert('") {
			t.Errorf("%s has\n%s", name, text)
		}
		if !strings.Contains(text, "&lt;script&gt;") || !strings.HasSuffix(text, "</html>\n") {
			t.Errorf("%s lacks a value, or its end:\n%s", name, text)
		}
	}
}
