// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutant compiles code of this module with a rule of it broken, for tests that require
// a simulator to notice. The compiler reads the changed file through an overlay: nothing is
// written into the tree.
package mutant

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Change replaces a piece of a file.
type Change struct {
	File     string
	Old, New string
}

// Text returns the changed text of the file. It is an error if the piece is not there exactly
// once.
func (c Change) Text() (string, error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), c.Old); n != 1 {
		return "", fmt.Errorf("%q is %d times in %s, want once", c.Old, n, c.File)
	}
	return strings.Replace(string(text), c.Old, c.New, 1), nil
}

// Overlay writes a text for a file into a folder, and returns the value of the flag -overlay of
// the go command with which the compiler reads it instead of the file.
func Overlay(folder, file, text string) (overlay string, err error) {
	return overlayOf(folder, map[string]string{file: text})
}

// overlayOf is Overlay for several files. Some may not exist.
func overlayOf(folder string, texts map[string]string) (overlay string, err error) {
	replace := make(map[string]string)
	for file, text := range texts {
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		changed := filepath.Join(folder, strconv.Itoa(len(replace))+"-"+filepath.Base(file))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[original] = changed
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// limit bounds the build and the schedules of one change.
const limit = 10 * time.Minute

// Schedules runs the test TestSchedules of the package in the working directory with a change,
// until a breach is found or the number of schedules has run. It writes to the folder. The
// output is that of the test; the error is nil if the test passes.
func Schedules(ctx context.Context, folder string, c Change, breach string, schedules int) (output string, err error) {
	text, err := c.Text()
	if err != nil {
		return "", err
	}
	overlay, err := Overlay(folder, c.File, text)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-overlay", overlay, //nolint:gosec // arguments of tests
		"-run", "TestSchedules$", "-sim.until="+breach, "-sim.schedules="+strconv.Itoa(schedules), ".").CombinedOutput()
	return string(out), err
}
