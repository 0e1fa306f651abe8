// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A private key that other users can open is refused.
func TestOpenPrivateKey(t *testing.T) {
	dir := pemDir(t)
	if err := os.Chmod(filepath.Join(dir, "a.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Parse(filepath.Join(dir, "x.yaml"), []byte(`{mcpServers: {}, tls: {certificate: a.crt, key: a.key}}`), nil)
	if problems, _ := err.(Problems); len(problems) != 1 || problems[0].Path != "tls.key" || !strings.Contains(problems[0].Message, "all users of this machine can open") { //nolint:errorlint // Parse returns no other type
		t.Errorf("got %v", err)
	}
}
