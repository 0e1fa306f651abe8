// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	nodeModules = "node_modules"
	// stampFile says which lock file node_modules was made from.
	stampFile = nodeModules + "/.lock-sha256"
	// npmTimeout is enough for a cold cache on a slow line.
	npmTimeout = 5 * time.Minute
)

// nodeTools is Node with the installed packages.
type nodeTools struct {
	bin string
	dir string // absolute path of node_modules
	env []string
}

func (n nodeTools) module(path string) string { return filepath.Join(n.dir, filepath.FromSlash(path)) }

// installNode makes node_modules what the lock file says, unless it is already.
func installNode(t *testing.T) nodeTools {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	stamp := []byte(hex.EncodeToString(sum[:]))
	if old, err := os.ReadFile(stampFile); err != nil || !bytes.Equal(old, stamp) {
		npmInstall(t)
		if err := os.WriteFile(stampFile, stamp, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return findNode(t)
}

// npmInstall runs no scripts of the packages: none of them needs it here.
func npmInstall(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), npmTimeout)
	defer stop()
	out, errs, err := output(ctx, nil, nil, "npm", "ci", "--ignore-scripts", "--loglevel=error")
	if err != nil {
		t.Fatalf("npm ci: %v\n%s%s", err, out, errs)
	}
}

// findNode prefers the Node that npm installed to the system's, which may be
// too old for some of the packages.
func findNode(t *testing.T) nodeTools {
	t.Helper()
	dir, err := filepath.Abs(nodeModules)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, ".bin", "node")
	if _, err := os.Stat(bin); err != nil {
		if bin, err = exec.LookPath("node"); err != nil {
			t.Fatal(err)
		}
	}
	// Compiled code is kept beside its source: the inspector starts often.
	return nodeTools{bin: bin, dir: dir, env: []string{"NODE_COMPILE_CACHE=" + filepath.Join(dir, ".compiled")}}
}
