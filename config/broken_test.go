// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// TestBrokenFilesShowNoSecret modifies a valid file at every position: a character is removed,
// doubled, or replaced by a syntax character. The messages must not contain secrets, except
// for a secret that has become a key, which cannot be distinguished from other names.
func TestBrokenFilesShowNoSecret(t *testing.T) {
	const yamlText = "mcpServers:\n  a:\n    command: x\n    env:\n      K: " + secretText + "\n      L: \"" + secretText + "\"\n" +
		"  b: {url: \"https://h/?k=" + secretText + "\", headers: {H: '" + secretText + "'}}\n"
	const jsonText = `{"mcpServers": {"a": {"command": "x", "args": ["` + secretText + `"], "env": {"K": "` + secretText + `"}}}}`
	for name, text := range map[string]string{"x.yaml": yamlText, "x.json": jsonText} {
		if _, err := Parse(name, []byte(text), nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		broken := 0
		for i := range text {
			for _, with := range []string{"", text[i:i+1] + text[i:i+1], "\n", "\t", `"`, ":", "{", "|", "${"} {
				damaged := text[:i] + with + text[i+1:]
				_, err := Parse(name, []byte(damaged), nil)
				if err == nil || keyHas(damaged, name == "x.json", "hunter2") {
					continue
				}
				broken++
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%q: %v", damaged, err)
				}
			}
		}
		if broken < len(text) {
			t.Errorf("%s: only %d of the damaged files were refused", name, broken)
		}
	}
}

// keyHas reports whether a part of the secret occurs in a key of the file.
func keyHas(text string, isJSON bool, part string) bool {
	tree, err := configfile.Parse([]byte(text), isJSON)
	return err == nil && anyKey(tree, part)
}

func anyKey(n configfile.Node, part string) bool {
	for _, m := range n.Members {
		if strings.Contains(m.Key, part) || anyKey(m.Value, part) {
			return true
		}
	}
	for _, item := range n.Items {
		if anyKey(item, part) {
			return true
		}
	}
	return false
}
