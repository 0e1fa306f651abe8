// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/check"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
)

// A cure changes only what the finding is about. Where the file has a reference to a variable,
// it stays; and what would be lost is left to the user.
func TestCures(t *testing.T) {
	t.Parallel()
	whole, err := filepath.Abs("/bin/tool")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		finding    check.Finding
		want       string // "" if there is no cure, or the error after a !
	}{
		{
			"a program of the login shell", "mcpServers: {a: {command: tool}} # x\n",
			check.Finding{Code: code.StartNotFound, Fix: "command: " + whole},
			"mcpServers: {a: {command: " + whole + "}} # x\n",
		},
		{"a program that nobody has", "mcpServers: {a: {command: tool}}\n", check.Finding{Code: code.StartNotFound, Fix: "Install it."}, ""},
		{
			"a line with a reference", "mcpServers:\n  a:\n    command: npx -y \"@x/a b\" ${KEY}\n    args: [more, '-']\n",
			check.Finding{Code: code.StartOneString},
			"mcpServers:\n  a:\n    command: npx\n    args: [-y, \"@x/a b\", \"${KEY}\", more, \"-\"]\n",
		},
		{
			"a line, and arguments with comments", "mcpServers:\n  a:\n    command: npx x\n    args:\n      - more # why\n      - y\n",
			check.Finding{Code: code.StartOneString},
			`!a.yaml: the "args" of "a" have comments, which would be lost (edit them by hand: command: npx, args: ["x", "more", "y"])`,
		},
		{"a quote without an end", "mcpServers: {a: {command: npx 'x}}\n", check.Finding{Code: code.StartOneString}, ""},
		{"one word", "mcpServers: {a: {command: npx}}\n", check.Finding{Code: code.StartOneString}, ""},
		{
			"an option", "mcpServers: {a: {command: x, args: [--a=~/b]}}\n",
			check.Finding{Code: code.FileTilde, Path: "mcpServers.a.args[0]"},
			"mcpServers: {a: {command: x, args: [\"--a=${HOME}/b\"]}}\n",
		},
		{"an argument that is gone", "mcpServers: {a: {command: x}}\n", check.Finding{Code: code.FileTilde, Path: "mcpServers.a.args[0]"}, ""},
		{"another place", "mcpServers: {}\naudit: {file: ~/x}\n", check.Finding{Code: code.FileTilde, Path: "audit.file"}, ""},
		{"a placeholder", "mcpServers: {a: {command: x, args: [<KEY>]}}\n", check.Finding{Code: code.FilePlaceholder, Path: "mcpServers.a.args[0]"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := configedit.File{Name: "a.yaml", Text: []byte(tt.text)}
			tt.finding.Kind, tt.finding.Name = "server", "a"
			got := ""
			if all := cures(file, []check.Finding{tt.finding, tt.finding}); len(all) > 1 {
				t.Errorf("%d cures", len(all))
			} else if len(all) == 1 {
				text, err := all[0].change(file)
				if got = string(text); err != nil {
					got = "!" + err.Error()
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
