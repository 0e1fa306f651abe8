// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/shares"
)

// window is a file that the gateway's program has only in this measurement, because
// profiles must not be available to every client that can reach it.
const window = `package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

func init() {
	go func() { panic(http.ListenAndServe(os.Getenv("` + windowVariable + `"), nil)) }()
}
`

// windowVariable is the environment variable with the address of the window.
const windowVariable = "BENCH_PROFILE_ADDRESS"

// buildWindow builds the gateway's program from its source with the window, by an overlay:
// nothing is written into the tree.
func (b *bench) buildWindow(ctx context.Context, g *rig) (program string, err error) {
	root, err := filepath.Abs(b.source)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(g.dir, "window.go"), filepath.Join(g.dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "cmd/signalbox/window.go"): file}})
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(file, []byte(window), 0o600), os.WriteFile(overlay, text, 0o600))
	if err != nil {
		return "", err
	}
	program = filepath.Join(g.dir, "signalbox")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-overlay", overlay, "-o", program, "./cmd/signalbox") //nolint:gosec // our own files
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// seconds is the duration of a profile.
const seconds = 5

// measureProfile measures where calls spend their time, and where they allocate.
func (b *bench) measureProfile(ctx context.Context, g *rig) error {
	program, err := b.buildWindow(ctx, g)
	if err != nil {
		return err
	}
	g.program = program
	backend, err := g.start(ctx, "backend")
	if err != nil {
		return err
	}
	found := make(map[string][]shares.Share)
	var columns []string
	for _, p := range payloads() {
		if p.name != "100 B" && p.name != "1 MiB" {
			continue
		}
		for _, behind := range eras() {
			for _, era := range eras() {
				column := p.name + ", " + cellName(era, behind)
				columns = append(columns, column)
				if found[column], err = b.profile(ctx, g, backend, era, behind, p.tool); err != nil {
					return fmt.Errorf("%s: %w", column, err)
				}
			}
		}
	}
	b.shareTable(columns, found)
	return nil
}

// profile takes a profile of a gateway while clients call one tool.
func (b *bench) profile(ctx context.Context, g *rig, backend *proc.Process, era, behind canned.Era, tool string) ([]shares.Share, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(windowVariable, address); err != nil {
		return nil, err
	}
	p, err := g.gateway(ctx, overHTTP(backend.Address, 1, canned.Setup{Era: behind, Tools: defaultTools}), defaultTools)
	if err != nil {
		return nil, err
	}
	e, err := enter(ctx, "profile", p, target(p, era, ""), load.ToolCall(toolAt(0, tool), false), judgeText(tool))
	if err != nil {
		return nil, err
	}
	defer e.close()
	calling, stop := context.WithCancel(ctx)
	done := make(chan load.Result, 1)
	// Ends with the profile; the receive below waits for it.
	go func() { done <- load.Run(calling, e.callers, 1<<30) }()
	text, err := fetch(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds))
	stop()
	r := <-done
	if r.Calls == 0 {
		err = errors.Join(err, r.First)
	}
	if err != nil {
		return nil, err
	}
	if err := b.keepProfile(era, behind, tool, text); err != nil {
		return nil, err
	}
	found, err := shares.Of(bytes.NewReader(text))
	return found, firstOf(err, g.end(p))
}

// keepProfile writes a profile to the folder of the options, for later analysis.
func (b *bench) keepProfile(era, behind canned.Era, tool string, text []byte) error {
	if b.keep == "" {
		return nil
	}
	name := fmt.Sprintf("%s-%s-%s.pprof", era, behind, tool)
	return os.WriteFile(filepath.Join(b.keep, name), text, 0o600)
}

// freeAddress returns a loopback address with an unused port.
func freeAddress(ctx context.Context) (string, error) {
	l, err := listenLocal(ctx)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func fetch(ctx context.Context, rawURL string) ([]byte, error) {
	if _, err := url.Parse(rawURL); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rawURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return text, err
}

// shareTable adds the table: a row for each part with at least a hundredth of any column.
func (b *bench) shareTable(columns []string, found map[string][]shares.Share) {
	t := b.table("profile", "Where the time of a call goes",
		"Shares of the gateway's CPU time, from a profile. Work that the runtime does for other code is listed separately; the rest is listed by the package of the code.",
		append([]string{"part, %"}, columns...)...)
	var parts []string
	for _, column := range columns {
		for _, s := range found[column] {
			if s.Of >= 0.01 && !slices.Contains(parts, s.Part) {
				parts = append(parts, s.Part)
			}
		}
	}
	for _, part := range parts {
		row := []string{part}
		for _, column := range columns {
			row = append(row, percent(found[column], part))
		}
		t.Add(row...)
	}
}

func percent(all []shares.Share, part string) string {
	i := slices.IndexFunc(all, func(s shares.Share) bool { return s.Part == part })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", 100*all[i].Of)
}
