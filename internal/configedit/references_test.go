// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	const text = `listen: "${LISTEN:-127.0.0.1:0}"
mcpServers:
  a: {command: x, args: ["--x=${A}-${env:B}", "${A:-1}", "$C ${input:d}"], env: {"${E}": "${A}"}}
  b: {command: x, disabled: true, env: {A: "${A}"}}
  c: {command: x, enabled: false, cwd: "${F}"}
  d: {url: "https://${G:-h}/", headers: {H: "Bearer ${H}"}}
state: {keys: ["${KEY}"]}
`
	want := []Reference{
		{"a", "A", false},
		{"a", "B", false},
		{"b", "A", true},
		{"c", "F", true},
		{"d", "G", true},
		{"d", "H", false},
		{"", "LISTEN", true},
		{"", "KEY", false},
	}
	if diff := cmp.Diff(want, (File{Name: "x.yaml", Text: []byte(text)}).References()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (File{Name: "x.json", Text: []byte("{")}).References(); got != nil {
		t.Errorf("a file with a mistake: %v", got)
	}
}
