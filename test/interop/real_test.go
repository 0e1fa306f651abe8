// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// TestRealServers starts common servers behind one gateway, and also directly, and prints
// the times to the complete list, and the processes then. It needs the flag -real: its
// packages are large.
func TestRealServers(t *testing.T) {
	if !*real {
		return
	}
	gw := newGateway(t, nil)
	space := newWorkspace(t)
	t.Chdir("real")
	if why := foreign.LacksNode(t) + foreign.LacksPython(t); why != "" {
		t.Fatal(why)
	}
	servers := realServers(t, foreign.InstallNode(t), foreign.InstallPython(t, "."), space)
	ans := answers{Root: space.rootURI()}
	alone := measureReal(t, ans, servers)
	alone.print("direct", len(servers))
	config := filepath.Join(t.TempDir(), "mcp.json")
	writeReal(t, config, servers)
	all := server{name: "signalbox", target: target{Command: gw.bin, Args: []string{"serve", "--stdio", "--config", config}}}
	through := measureReal(t, ans, []server{all})
	through.print("through", len(servers))
	for _, s := range servers {
		if err := includesAll(through.tools[all.name], prefixAll(alone.tools[s.name], s.name+"__")); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// realServers need no network and no credentials to start and to list.
func realServers(t *testing.T, node foreign.Node, python foreign.Python, w workspace) []server {
	t.Helper()
	repository := filepath.Join(w.root, "repository")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "--quiet", repository).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	var all []server
	add := func(name, command string, args ...string) {
		all = append(all, server{name: name, target: target{Command: command, Args: args}})
	}
	js := func(name, path string, args ...string) {
		add(name, node.Bin, append([]string{node.Module(path)}, args...)...)
	}
	// Invalid keys are enough to start and to list.
	keyed := func(name, variable, path string, args ...string) {
		add(name, "env", append([]string{"DO_NOT_TRACK=1", variable + "=none", node.Bin, node.Module(path)}, args...)...)
	}
	keyed("brave", "BRAVE_API_KEY", "@modelcontextprotocol/server-brave-search/dist/index.js")
	keyed("exa", "EXA_API_KEY", "exa-mcp-server/dist/stdio.cjs")
	keyed("figma", "FIGMA_API_KEY", "figma-developer-mcp/dist/bin.js", "--stdio")
	keyed("firecrawl", "FIRECRAWL_API_KEY", "firecrawl-mcp/dist/index.js")
	keyed("github", "GITHUB_PERSONAL_ACCESS_TOKEN", "@modelcontextprotocol/server-github/dist/index.js")
	keyed("gitlab", "GITLAB_PERSONAL_ACCESS_TOKEN", "@modelcontextprotocol/server-gitlab/dist/index.js")
	keyed("maps", "GOOGLE_MAPS_API_KEY", "@modelcontextprotocol/server-google-maps/dist/index.js")
	keyed("notion", "NOTION_TOKEN", "@notionhq/notion-mcp-server/bin/cli.mjs")
	keyed("tavily", "TAVILY_API_KEY", "tavily-mcp/build/index.js")
	add("slack", "env", "SLACK_BOT_TOKEN=none", "SLACK_TEAM_ID=none", node.Bin, node.Module("@modelcontextprotocol/server-slack/dist/index.js"))
	js("obsidian", "mcp-obsidian/dist/index.js", w.allowed)
	// It connects when a tool is called or a resource is listed, and there is no listener.
	js("postgres", "@modelcontextprotocol/server-postgres/dist/index.js", "postgresql://127.0.0.1:1/none")
	js("puppeteer", "@modelcontextprotocol/server-puppeteer/dist/index.js")
	js("chart", "@antv/mcp-server-chart/build/index.js")
	js("chrome", "chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js")
	js("context7", "@upstash/context7-mcp/dist/index.js")
	js("eslint", "@eslint/mcp/src/mcp-cli.js")
	js("everything", "@modelcontextprotocol/server-everything/dist/index.js")
	js("filesystem", "@modelcontextprotocol/server-filesystem/dist/index.js", w.allowed)
	js("memory", "@modelcontextprotocol/server-memory/dist/index.js")
	js("playwright", "@playwright/mcp/cli.js", "--headless")
	js("thinking", "@modelcontextprotocol/server-sequential-thinking/dist/index.js")
	add("excel", python.Bin, "-m", "excel_mcp", "stdio")
	add("fetch", python.Bin, "-m", "mcp_server_fetch")
	add("git", python.Bin, "-m", "mcp_server_git", "--repository", repository)
	add("time", python.Bin, "-m", "mcp_server_time")
	return all
}

func writeReal(t *testing.T, path string, servers []server) {
	t.Helper()
	entries := make(map[string]any)
	for _, s := range servers {
		entries[s.name] = map[string]any{"command": s.target.Command, "args": s.target.Args}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// measured has the values at the time of the last list.
type measured struct {
	took           time.Duration
	tools          map[string][]string
	processes, mib int
}

func (m measured) print(way string, servers int) {
	n := 0
	for _, names := range m.tools {
		n += len(names)
	}
	fmt.Printf("%-8s %d servers, %d tools: %v to the whole list, %d processes, %d MiB RSS\n",
		way, servers, n, m.took.Round(time.Millisecond), m.processes, m.mib)
}

// measureReal connects to all concurrently, lists their tools, and leaves.
func measureReal(t *testing.T, ans answers, servers []server) measured {
	t.Helper()
	m := measured{tools: make(map[string][]string)}
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	start := time.Now()
	for _, s := range servers {
		session := &goSession{job: newPlan(row{"go-sdk", newestLegacy}, s.target, ans).job, inbox: newInbox()}
		// Waited for below; the context bounds it.
		wg.Go(func() {
			// Some are older than the newest legacy revision.
			if err := session.dial(ctx, newStandalone()); err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			names, err := session.listed(ctx, "tools")
			if err != nil || len(names) == 0 {
				t.Errorf("%s has the tools %q, %v", s.name, names, err)
			}
			mu.Lock()
			defer mu.Unlock()
			m.tools[s.name] = names
		})
		defer func() {
			if session.cs != nil {
				session.cs.Close()
			}
		}()
	}
	wg.Wait()
	m.took = time.Since(start)
	m.processes, m.mib = descendants(t)
	return m
}

// descendants counts the processes below this one, and their resident memory.
func descendants(t *testing.T) (processes, mib int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,ppid=,rss=,comm=").Output()
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		pid, parent, kib int
		command          string
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		var p process
		if _, err := fmt.Sscan(line, &p.pid, &p.parent, &p.kib, &p.command); err == nil {
			all = append(all, p)
		}
	}
	below := map[int]bool{os.Getpid(): true}
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] && p.command != "ps" {
				below[p.pid], grew = true, true
				processes++
				mib += p.kib
			}
		}
	}
	return processes, mib / 1024
}
