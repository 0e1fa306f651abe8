// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/internal/configedit"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// TestEditChangedFile checks that a file that changes during a command is left.
func TestEditChangedFile(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	path := filepath.Join(e.Dir, "signalbox.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const theirs = "mcpServers: {theirs: {command: x}}\n"
	write("mcpServers: {a: {command: x}}\n")
	err := Change(t.Context(), e.Env, "", "a", func(f configedit.File) ([]byte, error) {
		write(theirs)
		return f.Remove("a")
	})
	if !errors.Is(err, safefile.ErrChanged) || !strings.HasSuffix(err.Error(), "signalbox.yaml: changed meanwhile; look again") {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != theirs {
		t.Errorf("the file has %q, %v", text, err)
	}
	if out := e.Out.String(); out != "" {
		t.Errorf("printed %q", out)
	}
}

func TestUnifiedDiff(t *testing.T) {
	t.Parallel()
	tests := []struct{ old, text, want string }{
		{"a\n", "a\n", ""},
		{"", "a\n", "@@ -0,0 +1,1 @@\n+a\n"},
		{"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		{"a\nb\n", "a\nc\nb\n", "@@ -1,2 +1,3 @@\n a\n+c\n b\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		{"a\na\n", "a\na\na\n", "@@ -1,2 +1,3 @@\n a\n a\n+a\n"},
		{"a: 1\nx\nb: 2\n", "a: 3\nx\nb: 4\n", "@@ -1,3 +1,3 @@\n-a: 1\n+a: 3\n x\n-b: 2\n+b: 4\n"},
		{"a", "b", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
	}
	for _, tt := range tests {
		want := tt.want
		if want != "" {
			want = "--- f\n+++ f\n" + want
		}
		if got := UnifiedDiff("f", []byte(tt.old), []byte(tt.text)); got != want {
			t.Errorf("from %q to %q:\n%swant\n%s", tt.old, tt.text, got, want)
		}
	}
}

// TestRedactedDiff checks which texts of a file are removed from a difference.
func TestRedactedDiff(t *testing.T) {
	t.Parallel()
	f := configedit.File{Name: "a.json", Text: []byte(`{
  "mcpServers": {"a": {
    "env": {"API_KEY": "key-0123456789", "REF": "${REFERENCE}"},
    "headers": {"Authorization": "Bearer token-0123456789"},
    "url": "https://user:password-0123@example.com/?k=query-0123456789"
  }},
  "state": {"keys": ["state-0123456789"]}
}`)}
	text := redactorOf(f).Text(string(f.Text))
	if strings.Contains(text, "0123") || !strings.Contains(text, "${REFERENCE}") || !strings.Contains(text, "example.com") {
		t.Errorf("got %s", text)
	}
	if text := redactorOf(configedit.File{Name: "a.json", Text: []byte("{")}).Text("x"); text != "x" {
		t.Errorf("an invalid file: got %s", text)
	}
}
