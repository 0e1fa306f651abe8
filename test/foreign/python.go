// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

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
	// pythonCheck fails if a virtual environment cannot be created (Debian has venv in a
	// package of its own) or if the version is too old for our packages.
	pythonCheck = "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 10))"
	// pipTimeout allows for a cold cache and a slow network.
	pipTimeout = 5 * time.Minute
)

// Python is a virtual environment with the packages of a requirements.txt.
type Python struct {
	// Bin is the path of its interpreter.
	Bin string

	dir string // absolute path of the folder with the list
}

// Script returns the absolute path of a file next to requirements.txt.
func (p Python) Script(name string) string { return filepath.Join(p.dir, name) }

// LacksPython returns why this machine cannot run tests that need Python, or "" if it
// can.
func LacksPython(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		return "python3 is missing"
	}
	if err := exec.CommandContext(t.Context(), "python3", "-c", pythonCheck).Run(); err != nil {
		return "python3 is older than 3.10, or has no venv (Debian: apt-get install python3-venv)"
	}
	return ""
}

// InstallPython installs the packages of requirements.txt into the virtual environment
// .venv, both in dir, unless they are installed already.
func InstallPython(t testing.TB, dir string) Python {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(list)
	want := []byte(hex.EncodeToString(sum[:]))
	venv := filepath.Join(dir, ".venv")
	p := Python{Bin: filepath.Join(venv, "bin", "python"), dir: dir}
	stamp := filepath.Join(venv, ".list-sha256")
	if old, err := os.ReadFile(stamp); err == nil && bytes.Equal(old, want) {
		return p
	}
	pipInstall(t, p, venv)
	if err := os.WriteFile(stamp, want, 0o600); err != nil { //nolint:gosec // the folder is chosen by a test
		t.Fatal(err)
	}
	return p
}

// pipInstall installs wheels only: the build of a source package would run code that
// has not been reviewed.
func pipInstall(t testing.TB, p Python, venv string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), pipTimeout)
	defer stop()
	for _, command := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{
			p.Bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
			"--requirement", p.Script("requirements.txt"),
		},
	} {
		out, errs, err := Output(ctx, nil, nil, command[0], command[1:]...)
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", command[2], err, out, errs)
		}
	}
}
