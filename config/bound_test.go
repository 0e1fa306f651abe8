// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

func TestFilterProblems(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`{in: results, redact: [{match: x}, {match: 'a('}]}`, `x.yaml:2:54: "match": it is not a regular expression of RE2: missing closing ): "a("`},
		{`{in: arguments, refuse: 'true && nobody.x'}`, `x.yaml:2:44: "refuse": undeclared reference to 'nobody'`},
		{`{mark: untrusted}`, `x.yaml:2:11: "filters[0]" does not specify what it examines (add "in: results" or "in: arguments")`},
		{`{in: results}`, `x.yaml:2:11: a filter has exactly one of "redact", "refuse" and "mark"; this one has 0 (give it one of them`},
		{`{in: arguments, mark: untrusted}`, `x.yaml:2:16: "redact" and "mark" are for results`},
		{`{in: results, refuse: 'true'}`, `x.yaml:2:16: "refuse" is for arguments (write "in: arguments")`},
		{`{in: results, mark: untrusted, say: a}`, `x.yaml:2:47: "say" is the text of the error for a refused call`},
		{`{in: results, redact: [{with: a}]}`, `x.yaml:2:34: "redact[0]" has no "match"`},
		{`{in: results, redact: []}`, `x.yaml:2:33: "redact" is empty, so that the filter does nothing`},
		{`{in: results, marks: untrusted}`, `x.yaml:2:25: unknown key "marks" (did you mean "mark"?)`},
	} {
		_, err := config.Parse("x.yaml", []byte("mcpServers: {}\nfilters: ["+tc.text+"]\n"), nil)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got\n%v\nwant\n%s", tc.text, err, tc.want)
		}
	}
	guarded := new(config.Config).RunsNew(&config.Config{Filters: []config.Filter{{}}})
	if len(guarded) != 1 || guarded[0] != "filters" {
		t.Errorf("a change waits for %q", guarded)
	}
}
