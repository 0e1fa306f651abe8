// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	linkedCode = regexp.MustCompile(`\]\(\.\./([^)]+\.go)\)`)
	goName     = regexp.MustCompile("`((?:[A-Za-z]+\\.)*[A-Za-z]+)`")
	goPath     = regexp.MustCompile("`([a-z][a-zA-Z0-9_/]*\\.go)`")
	stepStart  = regexp.MustCompile(`^\d+\. `)
)

// isWireName reports whether a name in a step is one of the protocol or of the
// configuration, and not of the code.
func isWireName(name string) bool {
	return strings.HasPrefix(name, "limits.") || name == "requestState" || name == "inputResponses"
}

// lostNames finds names of functions and types in the numbered steps of a document that
// are not declared in the package of a file linked in the step, or in an earlier step of
// its section. declares reports whether the package in a folder declares a name. A
// qualified name may also be declared in the package that it names.
func lostNames(doc string, declares func(dir, name string) bool) []string {
	var breaches, dirs []string
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "## ") {
			dirs = nil
		}
		if !stepStart.MatchString(line) {
			continue
		}
		for _, link := range linkedCode.FindAllStringSubmatch(line, -1) {
			dirs = append(dirs, path.Dir(link[1]))
		}
		for _, m := range goName.FindAllStringSubmatch(line, -1) {
			if isWireName(m[1]) {
				continue
			}
			parts := strings.Split(m[1], ".")
			found := false
			for _, dir := range append(dirs, "internal/"+parts[0], "client/internal/"+parts[0]) {
				found = found || declares(dir, parts[len(parts)-1])
			}
			if !found {
				breaches = append(breaches, fmt.Sprintf("%.40q: no linked package declares %s", line, m[1]))
			}
		}
	}
	return breaches
}

func TestRepoArchitectureNamesWhatExists(t *testing.T) {
	made := "## A\n1. [x](../a/x.go) `begin`: begin `limits.callMax`.\n2. `end` and `b.Other`, not `Type.lost`.\n`not a step`\n"
	got := lostNames(made, func(dir, name string) bool {
		return dir == "a" && (name == "begin" || name == "end") || dir == "internal/b" && name == "Other"
	})
	want := []string{`"2. ` + "`end` and `b.Other`, not `Type.lost`" + `.": no linked package declares Type.lost`}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("breaches (-got +want):\n%s", diff)
	}

	packages := make(map[string]string) // the code by folder
	declares := func(dir, name string) bool {
		code, ok := packages[dir]
		if !ok {
			files, err := filepath.Glob(dir + "/*.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if !strings.HasSuffix(file, "_test.go") {
					code += readFile(t, file)
				}
			}
			packages[dir] = code
		}
		declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type )` + name + `\b`)
		return declared.MatchString(code)
	}
	reportBreaches(t, lostNames(readFile(t, "docs/architecture.md"), declares))
}

// TestRepoContributingNamesFilesThatExist checks the table that leads from a change to
// its file and its test.
func TestRepoContributingNamesFilesThatExist(t *testing.T) {
	doc := readFile(t, "CONTRIBUTING.md")
	names := goPath.FindAllStringSubmatch(doc, -1)
	if len(names) == 0 {
		t.Error("CONTRIBUTING.md names no files")
	}
	for _, name := range names {
		if _, err := os.Stat(name[1]); err != nil {
			t.Errorf("CONTRIBUTING.md: %v", err)
		}
	}
}
