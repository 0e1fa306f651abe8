// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// buildTimeout allows for a cold cache, a slow network and a busy machine.
const buildTimeout = 15 * time.Minute

// oldestRust is the first minor version of Rust 1 that supports the edition of our crates.
const oldestRust = 85

// LacksRust returns why this machine cannot build a crate, or "" if it can.
func LacksRust(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cargo", "--version").Output()
	if err != nil {
		return "cargo is missing or fails"
	}
	return rustTooOld(strings.TrimSpace(string(out)))
}

// rustTooOld is the result of LacksRust for the output of cargo, such as
// "cargo 1.95.0 (f2d3ce0bd 2026-03-21)".
func rustTooOld(cargo string) string {
	fields := strings.FieldsFunc(cargo, func(r rune) bool { return r == ' ' || r == '.' })
	if len(fields) < 3 || fields[1] != "1" {
		return ""
	}
	if minor, err := strconv.Atoi(fields[2]); err != nil || minor < oldestRust {
		return cargo + " is too old"
	}
	return ""
}

// BuildRust builds the crate in dir with its Cargo.lock and returns the path of the
// program. Downloads and build output are in .cache of dir.
func BuildRust(t testing.TB, dir, program string) string {
	t.Helper()
	cache := cacheOf(t, dir)
	target := filepath.Join(cache, "target")
	env := []string{"CARGO_HOME=" + filepath.Join(cache, "home"), "CARGO_TARGET_DIR=" + target}
	build(t, env, "cargo", "build", "--quiet", "--locked", "--manifest-path", filepath.Join(dir, "Cargo.toml"))
	return filepath.Join(target, "debug", program)
}

func cacheOf(t testing.TB, dir string) string {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(abs, ".cache")
}

func build(t testing.TB, env []string, command string, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), buildTimeout)
	defer stop()
	out, errs, err := Output(ctx, nil, env, command, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, errs)
	}
}
