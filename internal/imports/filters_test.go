// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// TestFilters checks that what a client excludes is not offered, whatever its name, and that
// the rest of what it includes is.
func TestFilters(t *testing.T) {
	t.Parallel()
	names := []string{"read", "write", "files/read", "files/write", "web.get", "readme"}
	for _, tt := range []struct{ include, exclude []string }{
		{nil, []string{"files*"}},
		{[]string{"files/read", "read"}, []string{"files*"}},
		{[]string{"read*", "files/*"}, []string{"*/write"}},
		{[]string{"files/read"}, []string{"**"}},
		{[]string{"*"}, []string{"*ea*"}},
		{[]string{"read", "write"}, []string{"web.*"}},
	} {
		text := fmt.Sprintf(`{"mcpServers": {"a": {"command": "x", "includeTools": %s, "excludeTools": %s}}}`, list(tt.include), list(tt.exclude))
		result, err := imports.Read(imports.Source{File: "a.json"}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse("x.yaml", render(t, result.Servers), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		matches := func(patterns []string, name string) bool {
			return slices.ContainsFunc(patterns, func(pattern string) bool { return glob.Match(pattern, name) })
		}
		for _, name := range names {
			want := (tt.include == nil || matches(tt.include, name)) && !matches(tt.exclude, name)
			if got := c.Servers[0].Offers(name); got != want { // also when it is enabled
				t.Errorf("%s: %s is offered: %t, want %t", text, name, got, want)
			}
		}
	}
}

func list(patterns []string) string {
	out := "["
	for i, pattern := range patterns {
		if i > 0 {
			out += ", "
		}
		out += fmt.Sprintf("%q", pattern)
	}
	return out + "]"
}
