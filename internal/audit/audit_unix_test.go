// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package audit

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A path that cannot be a record is rejected with its name, without blocking.
func TestAuditFileRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, tt := range []struct{ path, why string }{
		{dir, "not a regular file"},
		{pipe, "not a regular file"},
		{socket, "not a regular file"},
		{"/dev/null", "not a regular file"},
		{filepath.Join(dir, "no", "such", "folder"), "no such file"},
		{filepath.Join(dir, strings.Repeat("x", 300)), "too long"},
	} {
		file, err := Open(tt.path)
		if err == nil {
			file.Close()
			t.Errorf("%s is taken", tt.path)
			continue
		}
		if !strings.Contains(err.Error(), tt.path) || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v; want its name and %q", tt.path, err, tt.why)
		}
	}
}
