// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// TestApprovedText checks that the text of a definition is read, and that a file that is larger
// than any is not.
func TestApprovedText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.yaml")
	c, err := Parse(path, []byte("mcpServers: {}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var d pins.Digest
	if text, ok := c.ApprovedText(d); ok {
		t.Errorf("read %q of no file", text)
	}
	file := TextFile(path, d)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, ok := c.ApprovedText(d); !ok || string(text) != "{}" {
		t.Errorf("read %q, %t", text, ok)
	}
	if err := os.Truncate(file, maxLock+1); err != nil {
		t.Fatal(err)
	}
	if text, ok := c.ApprovedText(d); ok {
		t.Errorf("read %d bytes of a file that is too large", len(text))
	}
}
