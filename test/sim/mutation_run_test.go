// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build mutations

package sim_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim"
	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

// The limits of the search for a failure. A build is heavy, so only two run at a time.
const (
	mostSchedules = 60_000
	mostTime      = 3 * time.Minute
	atOnce        = 2
)

var caught = regexp.MustCompile(`caught after (\d+) schedules`)

// TestMutationsAreCaught builds the simulator with each mutation, in an overlay outside the
// tree, and requires it to find a failure.
//
// A failure without any mutation would count as the detection of each.
func TestMutationsAreCaught(t *testing.T) {
	if _, failure := sim.Many(1, mostSchedules, atOnce, true); failure != nil {
		t.Fatal(failure)
	}
	places := make(chan struct{}, atOnce)
	dir := t.TempDir()
	for i, m := range mutations(t) {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			began := time.Now()
			n, out := hunt(t.Context(), filepath.Join(dir, strconv.Itoa(i)), &m)
			if n == 0 {
				t.Fatalf("not caught in %d schedules: %s", mostSchedules, out)
			}
			t.Logf("caught in %d schedules, %.1fs with the build", n, time.Since(began).Seconds())
		})
	}
}

// hunt returns how many schedules it took to detect the mutation, or 0.
func hunt(ctx context.Context, dir string, m *mutation) (schedules int, out string) {
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	overlay, err := m.overlay(dir)
	if err != nil {
		return 0, err.Error()
	}
	program := filepath.Join(dir, "sim")
	if text, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "./run").CombinedOutput(); err != nil {
		return 0, string(text)
	}
	text, err := exec.CommandContext(ctx, program, "-workers", "1", "-quick", "-n", strconv.Itoa(mostSchedules)).CombinedOutput()
	if err == nil {
		return 0, "all well"
	}
	found := caught.FindSubmatch(text)
	if found == nil {
		return 0, err.Error() + "\n" + string(text)
	}
	schedules, _ = strconv.Atoi(string(found[1]))
	return schedules, ""
}

// overlay writes the mutated file and the overlay file for the compiler.
func (m *mutation) overlay(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(machines, m.file)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	mutated, err := m.apply(string(source))
	if err != nil {
		return "", err
	}
	return mutant.Overlay(dir, file, mutated)
}
