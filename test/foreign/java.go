// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// oldestJava is the first version that our programs compile with.
const oldestJava = 17

// LacksJava returns why this machine cannot build a Maven project, or "" if it can.
func LacksJava(t testing.TB) string {
	t.Helper()
	for _, command := range []string{"mvn", "javac"} {
		if _, err := exec.LookPath(command); err != nil {
			return command + " is missing"
		}
	}
	out, err := exec.CommandContext(t.Context(), "javac", "-version").CombinedOutput()
	if err != nil {
		return "javac -version fails"
	}
	return javaTooOld(strings.TrimSpace(string(out)))
}

var javaVersion = regexp.MustCompile(`^javac (\d+)`)

// javaTooOld is the result of LacksJava for the output of javac, such as "javac 17.0.15".
func javaTooOld(javac string) string {
	m := javaVersion.FindStringSubmatch(javac)
	if m == nil {
		return javac + " has no version"
	}
	if major, err := strconv.Atoi(m[1]); err != nil || major < oldestJava {
		return javac + " is too old"
	}
	return ""
}

// BuildJava builds the Maven project in dir and returns its class path. Downloads and
// compiled classes are in .cache of dir.
func BuildJava(t testing.TB, dir string) string {
	t.Helper()
	cache := cacheOf(t, dir)
	build(t, nil, "mvn", "--quiet", "--batch-mode", "-Dmaven.repo.local="+filepath.Join(cache, "m2"),
		"--file", filepath.Join(dir, "pom.xml"), "compile")
	target := filepath.Join(cache, "target")
	return filepath.Join(target, "classes") + string(filepath.ListSeparator) + filepath.Join(target, "lib", "*")
}
