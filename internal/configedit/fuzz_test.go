// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"bytes"
	"testing"
)

// FuzzChange checks for arbitrary files that a change either is an error and leaves the file,
// or can be taken back with the same bytes.
func FuzzChange(f *testing.F) {
	for seed := range uint64(24) {
		file, _ := randomFile(seed)
		f.Add(file.Text, seed%4 > 1, "a", "b c")
	}
	f.Add([]byte("mcpServers:\n  ? a\n  : {command: |\n   x}\n"), false, "x", "")
	f.Add([]byte("mcpServers: [a: b]"), false, "null", "\n")
	f.Add([]byte("{\"servers\": {\"a\": {\"x\": [[], {}]}}} // c"), true, "é", "\x00")
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool, name, value string) {
		file := File{Name: "a.yaml", Text: text}
		if isJSON {
			file.Name = "a.json"
		}
		before := bytes.Clone(text)
		d, err := parse(file)
		if err != nil {
			return
		}
		servers, _ := d.serversNode()
		added, err := file.Add(name, Entry{{"command", value}, {"args", []string{value, "x"}}})
		if !bytes.Equal(text, before) {
			t.Fatalf("the text was modified: %q", text)
		}
		if err != nil {
			return
		}
		removed, err := File{Name: file.Name, Text: added}.Remove(name)
		if err != nil {
			t.Fatalf("%q was added to, and cannot be removed from: %v\n%q", text, err, added)
		}
		if len(servers.Members) > 0 && !bytes.Equal(removed, text) {
			t.Fatalf("added and removed:\n%q\n%q\n%q", text, added, removed)
		}
		for _, m := range servers.Members {
			disabled, err := file.Disable(m.Key)
			if err != nil || bytes.Equal(disabled, text) || bytes.Contains(text, []byte("abled")) {
				continue
			}
			enabled, err := File{Name: file.Name, Text: disabled}.Enable(m.Key)
			if err != nil || len(m.Value.Members) > 0 && !bytes.Equal(enabled, text) {
				t.Fatalf("disabled and enabled: %v\n%q\n%q\n%q", err, text, disabled, enabled)
			}
		}
	})
}
