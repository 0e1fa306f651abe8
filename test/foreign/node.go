// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// Node is Node.js with the packages that a lock file pins.
type Node struct {
	// Bin is the program.
	Bin string
	// Env is what a child gets on top of our own environment.
	Env []string

	dir string // absolute path of node_modules
}

// Module is the absolute path of a file of an installed package, whose path
// below node_modules is given with slashes.
func (n Node) Module(path string) string { return filepath.Join(n.dir, filepath.FromSlash(path)) }

// oldestNpm is the first that reads our lock files.
const oldestNpm = 7

// LacksNode says why nothing that needs Node.js can run on this machine, or nothing
// when it can.
func LacksNode(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "npm", "--version").Output()
	if err != nil {
		return "there is no npm that works"
	}
	return tooOld(strings.TrimSpace(string(out)))
}

func tooOld(npm string) string {
	major, _, _ := strings.Cut(npm, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNpm {
		return "npm " + npm + " is too old"
	}
	return ""
}

// InstallNode makes node_modules of the working directory what the lock file
// there says, unless it is already.
func InstallNode(t testing.TB) Node {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	stamp := []byte(hex.EncodeToString(sum[:]))
	if old, err := os.ReadFile(stampFile); err != nil || !bytes.Equal(old, stamp) {
		npmInstall(t)
		if err := os.WriteFile(stampFile, stamp, 0o600); err != nil { //nolint:gosec // the path is a constant
			t.Fatal(err)
		}
	}
	return findNode(t)
}

// npmInstall runs no scripts of the packages: none of them needs it here.
func npmInstall(t testing.TB) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), npmTimeout)
	defer stop()
	out, errs, err := Output(ctx, nil, nil, "npm", "ci", "--ignore-scripts", "--loglevel=error")
	if err != nil {
		t.Fatalf("npm ci: %v\n%s%s", err, out, errs)
	}
}

// findNode prefers the Node that npm installed to the system's, which may be
// too old for some of the packages.
func findNode(t testing.TB) Node {
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
	// Compiled code is kept beside its source: some programs start often.
	return Node{Bin: bin, dir: dir, Env: []string{"NODE_COMPILE_CACHE=" + filepath.Join(dir, ".compiled")}}
}

// CheckLock keeps the place that packages were once fetched from out of the
// lock file of the working directory, and wants a hash for each.
func CheckLock(t testing.TB) {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, breach := range lockBreaches(lock) {
		t.Error(breach)
	}
}

func lockBreaches(data []byte) []string {
	var lock struct {
		Packages map[string]struct {
			Resolved, Integrity string
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return []string{"not a lock file: " + err.Error()}
	}
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(lock.Packages)) {
		p := lock.Packages[name]
		if p.Resolved != "" {
			breaches = append(breaches, name+" names its address "+p.Resolved)
		}
		if name != "" && p.Integrity == "" {
			breaches = append(breaches, name+" has no hash")
		}
	}
	return breaches
}
