// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/counts"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/proc"
)

// rig owns the processes of a group of measurements. They are started for it and end with
// it, so that no group is affected by another.
type rig struct {
	self    string // this program
	program string // of the gateway
	dir     string // for configurations
	running []*proc.Process
	configs int
}

func newRig(program string) (*rig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	return &rig{self: self, program: program, dir: dir}, err
}

// close ends all processes, the last one first.
func (g *rig) close() error {
	var errs []error
	for _, p := range slices.Backward(g.running) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}

// start starts one of the programs of this command.
func (g *rig) start(ctx context.Context, args ...string) (*proc.Process, error) {
	return g.keep(proc.Start(ctx, g.self, args...))
}

func (g *rig) keep(p *proc.Process, err error) (*proc.Process, error) {
	if err == nil {
		g.running = append(g.running, p)
	}
	return p, err
}

// end ends one process before the others.
func (g *rig) end(p *proc.Process) error {
	for i, have := range g.running {
		if have == p {
			g.running = append(g.running[:i], g.running[i+1:]...)
			return p.Stop()
		}
	}
	return nil
}

// server is a backend in the gateway's configuration.
type server struct {
	URL     string   `json:"url,omitempty"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Share   bool     `json:"share,omitempty"`
}

// config is a configuration of the gateway: its backends and, if the measurement exceeds a
// default limit, that limit. Everything else is as shipped.
type config struct {
	Listen    string            `json:"listen,omitempty"`
	PublicURL string            `json:"publicURL,omitempty"`
	Auth      *authConfig       `json:"auth,omitempty"`
	Limits    map[string]int    `json:"limits,omitempty"`
	Servers   map[string]server `json:"mcpServers"`
}

// authConfig are the identity providers of callers.
type authConfig struct {
	Issuers []issuerConfig `json:"issuers"`
}

type issuerConfig struct {
	Name     string   `json:"name"`
	Issuer   string   `json:"issuer"`
	Audience []string `json:"audience"`
}

// overHTTP configures n backends served by the canned one, each with the setup.
func overHTTP(address string, n int, setup canned.Setup) config {
	c := config{Servers: make(map[string]server)}
	for i := range n {
		setup.Name = backendName(i)
		c.Servers[setup.Name] = server{URL: address + "/mcp?" + setup.Query()}
	}
	return c
}

// overStdio configures one backend that the gateway starts.
func (g *rig) overStdio(setup canned.Setup) config {
	return config{Servers: map[string]server{
		backendName(0): {Command: g.self, Args: []string{"backend", "-stdio", "-setup", setup.Query()}},
	}}
}

// backendName returns the name of a backend. Names sort in the order of their numbers.
func backendName(i int) string { return fmt.Sprintf("b%03d", i) }

// toolAt returns the name under which the gateway offers a tool of a backend.
func toolAt(backend int, tool string) string { return backendName(backend) + "__" + tool }

// gateway starts a gateway and returns when it lists the given number of tools.
func (g *rig) gateway(ctx context.Context, c config, tools int) (*proc.Process, error) {
	return g.gatewayOf(ctx, g.program, c, tools)
}

// gatewayOf is gateway with a program of its own.
func (g *rig) gatewayOf(ctx context.Context, program string, c config, tools int) (*proc.Process, error) {
	p, err := g.launchOf(ctx, program, c)
	if err != nil {
		return nil, err
	}
	err = firstList(ctx, load.Target{URL: p.Address, Era: canned.Modern}, tools)
	return p, err
}

// launch starts a gateway.
func (g *rig) launch(ctx context.Context, c config) (*proc.Process, error) {
	return g.launchOf(ctx, g.program, c)
}

func (g *rig) launchOf(ctx context.Context, program string, c config) (*proc.Process, error) {
	c.Listen = "127.0.0.1:0"
	file, err := g.write(c)
	if err != nil {
		return nil, err
	}
	return g.keep(proc.Start(ctx, program, "serve", "--config", file))
}

// write writes a configuration to a file.
func (g *rig) write(c config) (file string, err error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return "", err
	}
	g.configs++
	file = filepath.Join(g.dir, fmt.Sprintf("signalbox%d.json", g.configs))
	return file, os.WriteFile(file, text, 0o600)
}

// firstList lists the tools until there are enough. The first list of a gateway waits for
// its backends, so one is usually enough; a busy machine may need more.
func firstList(ctx context.Context, t load.Target, tools int) error {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	ticker := time.NewTicker(listPause)
	defer ticker.Stop()
	for {
		c, err := load.NewClient(ctx, t, load.Call{Method: "tools/list"}, judgeTools(min(tools, pageItems), nil))
		if err == nil {
			c.Close(ctx)
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

const (
	// listPatience is how long a gateway may take until it lists all backends.
	listPatience = 30 * time.Second
	listPause    = 20 * time.Millisecond
)

// pageItems is the gateway's maximum of tools on a page.
const pageItems = 1000

// metricsOf returns the URL of a process's runtime metrics.
func metricsOf(p *proc.Process) (string, error) {
	u, err := url.Parse(p.Address)
	if err != nil {
		return "", err
	}
	return "http://" + u.Host + counts.Path, nil
}

// judgeTools checks that a list has want tools, all different. It stores the cursor in next
// unless that is nil.
func judgeTools(want int, next *string) load.Judge {
	return func(result []byte) error {
		var list struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &list); err != nil {
			return err
		}
		names := make(map[string]bool)
		for _, t := range list.Tools {
			names[t.Name] = true
		}
		if len(list.Tools) != want || len(names) != want {
			return fmt.Errorf("list of %d tools with %d names, want %d", len(list.Tools), len(names), want)
		}
		if next != nil {
			*next = list.NextCursor
		}
		return nil
	}
}

// judgeText checks that a result is the text of a tool.
func judgeText(tool string) load.Judge {
	want := canned.PlainText(canned.TextSize(tool))
	return func(result []byte) error {
		var r struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return err
		}
		if len(r.Content) != 1 || r.Content[0].Text != want {
			return fmt.Errorf("%s: unexpected text: %.200s", tool, strings.TrimSpace(string(result)))
		}
		return nil
	}
}
