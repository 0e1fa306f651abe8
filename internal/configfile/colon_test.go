// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile_test

import (
	"fmt"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// A colon without a space is a part of a text, also in a list inside braces.
func TestColonsInTexts(t *testing.T) {
	for text, want := range map[string]string{
		`[mcp:write]`:              "[mcp:write]",
		`{a: [mcp:write]}`:         "{a [mcp:write]}",
		`{a: [é:write, x, c:d]}`:   "{a [é:write x c:d]}",
		`{a: [mcp: write]}`:        "{a [{mcp write}]}",
		`{a: ["mcp": write]}`:      "{a [{mcp write}]}",
		`{a: [{mcp:write}]}`:       "{a [{mcp write}]}",
		`{a: [mcp:read:write]}`:    "{a [mcp:read:write]}",
		`{a: ["x:y", 'x:y', b:c]}`: "{a [x:y x:y b:c]}",
	} {
		n, err := configfile.Parse([]byte(text), false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := shape(n); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func shape(n configfile.Node) string {
	switch n.Kind {
	case configfile.List:
		items := make([]string, len(n.Items))
		for i, item := range n.Items {
			items[i] = shape(item)
		}
		return fmt.Sprint(items)
	case configfile.Mapping:
		out := "{"
		for _, m := range n.Members {
			out += m.Key + " " + shape(m.Value)
		}
		return out + "}"
	default:
		return n.Text
	}
}
