// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"testing"
)

// Characters that could deceive a terminal or a reader are escaped by their number.
// Quotes and backslashes are left to the log's own format.
func TestSanitize(t *testing.T) {
	tests := []struct{ text, want string }{
		{`a {"jsonrpc":"2.0"} C:\dir 'x'`, `a {"jsonrpc":"2.0"} C:\dir 'x'`},
		{"tab\tand \u20ac \U0001f468\u200d\U0001f469", "tab\tand \u20ac \U0001f468\u200d\U0001f469"},
		{"\x1b[31m\x00\r\x7f\u009b", `\x1b[31m\x00\x0d\x7f\u009b`},
		{"\u202eevil\u2066\u061c\u2028", `\u202eevil\u2066\u061c\u2028`},
		{"caf\xe9 \xff\ufffd", "caf\\xe9 \\xff\ufffd"},
	}
	for _, tt := range tests {
		if got := Sanitize(tt.text); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}
