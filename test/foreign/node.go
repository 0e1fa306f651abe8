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
	// stampFile contains the hash of the lock file that node_modules was installed from.
	stampFile = nodeModules + "/.lock-sha256"
	// npmTimeout allows for a cold cache and a slow network.
	npmTimeout = 5 * time.Minute
)

// Node is an installation of Node.js with the packages of a lock file.
type Node struct {
	// Bin is the path of node.
	Bin string
	// Env is added to the environment of the test process.
	Env []string

	dir string // absolute path of node_modules
}

// Module returns the absolute path of a file of an installed package. The argument is
// its path below node_modules, with slashes.
func (n Node) Module(path string) string { return filepath.Join(n.dir, filepath.FromSlash(path)) }

// oldestNpm is the first major version that reads our lock files.
const oldestNpm = 7

// LacksNode returns why this machine cannot run tests that need Node.js, or "" if it
// can.
func LacksNode(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "npm", "--version").Output()
	if err != nil {
		return "npm is missing or fails"
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

// InstallNode installs the packages of package-lock.json into node_modules, both in
// the working directory, unless they are installed already.
func InstallNode(t testing.TB) Node {
	t.Helper()
	return InstallNodeIn(t, ".")
}

// InstallNodeIn is like InstallNode, in a folder.
func InstallNodeIn(t testing.TB, dir string) Node {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	want := []byte(hex.EncodeToString(sum[:]))
	stamp := filepath.Join(dir, stampFile)
	if old, err := os.ReadFile(stamp); err != nil || !bytes.Equal(old, want) {
		npmInstall(t, dir)
		if err := os.WriteFile(stamp, want, 0o600); err != nil { //nolint:gosec // the folder is chosen by a test
			t.Fatal(err)
		}
	}
	return findNode(t, filepath.Join(dir, nodeModules))
}

// npmInstall runs no scripts of the packages: none of our packages needs them.
func npmInstall(t testing.TB, dir string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), npmTimeout)
	defer stop()
	out, errs, err := Output(ctx, nil, nil, "npm", "ci", "--prefix", dir, "--ignore-scripts", "--loglevel=error")
	if err != nil {
		t.Fatalf("npm ci: %v\n%s%s", err, out, errs)
	}
}

// findNode prefers the Node.js that npm installed: that of the system may be too old
// for some of the packages.
func findNode(t testing.TB, dir string) Node {
	t.Helper()
	bin := filepath.Join(dir, ".bin", "node")
	if _, err := os.Stat(bin); err != nil {
		var err error
		if bin, err = exec.LookPath("node"); err != nil {
			t.Fatal(err)
		}
	}
	// Node.js caches compiled code: some programs are started often.
	return Node{Bin: bin, dir: dir, Env: []string{"NODE_COMPILE_CACHE=" + filepath.Join(dir, ".compiled")}}
}

// CheckLock fails the test if a package in the lock file of the working directory has
// no hash, or has an address: it must not depend on the registry of an earlier install.
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
			breaches = append(breaches, name+" contains the address "+p.Resolved)
		}
		if name != "" && p.Integrity == "" {
			breaches = append(breaches, name+" has no hash")
		}
	}
	return breaches
}
