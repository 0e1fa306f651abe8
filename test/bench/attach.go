// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/marks"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/stats"
)

// The clients and servers of the group attach.
const (
	attachClients = 5
	attachServers = 10
	attachTool    = "text_100"
)

// measureAttach measures clients that can only start programs: each starts all servers, or
// each starts signalbox attach, which shares the servers of one gateway.
func (b *bench) measureAttach(ctx context.Context, g *rig) error {
	t := b.table("attach", "Clients on attach",
		fmt.Sprintf("%d clients on stdio with %d servers on stdio: each client starts all servers, or each starts `signalbox attach` and the servers have `share: true`. "+
			"Each client calls a tool of each server. Processes are the servers, the gateway, the attach commands, and a shell for each server that ends its group if the gateway is killed. Memory is that of all of them: private, and the proportional share of what they share (PSS). The median of the starts. "+
			"The servers are small programs in Go; a server started by `npx` has 80 to 160 MiB.", attachClients, attachServers),
		"how", "servers", "processes", "private MiB", "PSS MiB", "until all calls have returned, ms")
	one := b.table("attach", "One attach", "From the start of `signalbox attach` to its answer to initialize, and its resident memory: private, and pages of its program and of libraries, which all processes of the program share. The median of the starts.",
		"how", "ms", "resident MiB", "private MiB", "file MiB")
	var ways [2][]attachRun
	for range b.starts {
		for i, run := range []func(context.Context, *rig) (attachRun, error){startDirect, startAttached} {
			r, err := run(ctx, g)
			if err != nil {
				return err
			}
			ways[i] = append(ways[i], r)
		}
	}
	for i, name := range []string{"direct", "attach"} {
		median := func(f func(attachRun) float64) string {
			var all []float64
			for _, r := range ways[i] {
				all = append(all, f(r))
			}
			return marks.Number(stats.Of(all...).Median)
		}
		t.Add(name, median(func(r attachRun) float64 { return float64(r.servers) }), median(func(r attachRun) float64 { return float64(r.processes) }),
			median(func(r attachRun) float64 { return r.all.private }), median(func(r attachRun) float64 { return r.all.pss }), median(func(r attachRun) float64 { return r.ms }))
	}
	var cold, warm, rss, private, file, servers []float64
	for _, r := range ways[1] {
		cold, warm, servers = append(cold, r.cold), append(warm, r.warm), append(servers, float64(r.servers))
		rss, private, file = append(rss, r.one.rss), append(private, r.one.anon), append(file, r.one.file)
	}
	b.found.Set("attach/initialize/with a gateway/ms", stats.Of(warm...))
	b.found.Set("attach/initialize/without a gateway/ms", stats.Of(cold...))
	b.found.Set("attach/memory/one/rss", stats.Of(rss...))
	b.found.Set("attach/processes/shared/servers", stats.Of(servers...))
	number := func(all []float64) string { return marks.Number(stats.Of(all...).Median) }
	one.Add("a gateway runs", number(warm), number(rss), number(private), number(file))
	one.Add("the gateway is started", number(cold), "", "", "")
	return nil
}

// attachRun is what one start of all clients has cost.
type attachRun struct {
	servers, processes int
	all, one           footprint // of all processes, and of one attach
	ms                 float64   // until all calls have returned
	cold, warm         float64   // until initialize is answered, in ms
}

// footprint is memory in MiB.
type footprint struct{ rss, anon, file, private, pss float64 }

// memoryOf returns the memory of a process.
func memoryOf(pid int) (footprint, error) {
	var f footprint
	for name, into := range map[string]map[string]*float64{
		"status":       {"VmRSS": &f.rss, "RssAnon": &f.anon, "RssFile": &f.file},
		"smaps_rollup": {"Pss": &f.pss, "Private_Dirty": &f.private, "Private_Clean": &f.private},
	} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			return f, err
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			if to := into[key]; to != nil {
				kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				if err != nil {
					return f, err
				}
				*to += kib / 1024
			}
		}
	}
	return f, nil
}

// children returns the processes that a process has started, and theirs.
func children(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), children(child)...)
			}
		}
	}
	return all
}

func (r *attachRun) weigh(pids []int) error {
	r.processes = len(pids)
	for _, pid := range pids {
		f, err := memoryOf(pid)
		if err != nil {
			return err
		}
		r.all.private += f.private
		r.all.pss += f.pss
	}
	return nil
}

// lineClient is a legacy client of a program on stdio.
type lineClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	id  int
}

// startLines starts a program with a client, and returns the time until initialize is
// answered.
func startLines(ctx context.Context, environ []string, program string, args ...string) (*lineClient, time.Duration, error) {
	begun := time.Now()
	c := &lineClient{cmd: exec.CommandContext(ctx, program, args...)} //nolint:gosec // a program of the bench
	c.cmd.Env, c.cmd.Stderr = environ, os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, 0, err
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return nil, 0, err
	}
	c.out = bufio.NewReader(out)
	err = c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	took := time.Since(begun)
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		return nil, 0, errors.Join(err, c.close())
	}
	return c, took, nil
}

// ask sends a request and reads up to its result.
func (c *lineClient) ask(method, params string) error {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		return err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var m struct {
			ID     *int            `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		if m.ID == nil || *m.ID != c.id {
			continue
		}
		if m.Result == nil {
			return fmt.Errorf("%s: %s", method, bytes.TrimSpace(line))
		}
		return nil
	}
}

func (c *lineClient) call(tool string) error {
	return c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, tool))
}

func (c *lineClient) close() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// atOnce runs f n times at the same time.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// startDirect measures clients that start their servers.
func startDirect(ctx context.Context, g *rig) (r attachRun, err error) {
	all := make([]*lineClient, attachClients*attachServers)
	defer func() {
		for _, c := range all {
			if c != nil {
				err = errors.Join(err, c.close())
			}
		}
	}()
	begun := time.Now()
	err = atOnce(len(all), func(i int) (err error) {
		if all[i], _, err = startLines(ctx, os.Environ(), g.self, "backend", "-stdio", "-setup", attachSetup().Query()); err != nil {
			return err
		}
		return all[i].call(attachTool)
	})
	r.ms = millis(time.Since(begun))
	var pids []int
	for _, c := range all {
		if c != nil {
			pids = append(pids, c.cmd.Process.Pid)
		}
	}
	r.servers = len(pids)
	if err != nil {
		return r, err
	}
	return r, r.weigh(pids)
}

func attachSetup() canned.Setup { return canned.Setup{Era: canned.Legacy, Tools: defaultTools} }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// startAttached measures clients that start attach. The first one that connects starts the
// gateway.
func startAttached(ctx context.Context, g *rig) (r attachRun, err error) {
	state, err := os.MkdirTemp("", "b") // short: the path of a socket is bounded
	if err != nil {
		return r, err
	}
	c := config{Listen: "127.0.0.1:0", Servers: make(map[string]server)}
	for i := range attachServers {
		c.Servers[backendName(i)] = server{Command: g.self, Args: []string{"backend", "-stdio", "-setup", attachSetup().Query()}, Share: true}
	}
	file, err := g.write(c)
	if err != nil {
		return r, err
	}
	environ := append(os.Environ(), "XDG_STATE_HOME="+state)
	args := []string{"attach", "--config", file}
	clients := make([]*lineClient, attachClients)
	gateway := 0
	defer func() {
		for _, c := range clients {
			if c != nil {
				err = errors.Join(err, c.close())
			}
		}
		if gateway != 0 {
			err = errors.Join(err, syscall.Kill(gateway, syscall.SIGKILL))
		}
		err = errors.Join(err, os.RemoveAll(state))
	}()
	begun := time.Now()
	err = atOnce(attachClients, func(i int) (err error) {
		if clients[i], _, err = startLines(ctx, environ, g.program, args...); err != nil {
			return err
		}
		for n := range attachServers {
			if err := clients[i].call(toolAt(n, attachTool)); err != nil {
				return err
			}
		}
		return nil
	})
	r.ms = millis(time.Since(begun))
	if err != nil {
		return r, err
	}
	if gateway, err = gatewayOf(ctx, g, environ, file); err != nil {
		return r, err
	}
	pids := append(children(gateway), gateway)
	for _, pid := range pids {
		if program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); program == g.self {
			r.servers++
		}
	}
	for _, c := range clients {
		pids = append(pids, c.cmd.Process.Pid)
	}
	if err := r.weigh(pids); err != nil {
		return r, err
	}
	if r.one, err = memoryOf(clients[0].cmd.Process.Pid); err != nil {
		return r, err
	}
	more, took, err := startLines(ctx, environ, g.program, args...)
	if err != nil {
		return r, err
	}
	r.warm = millis(took)
	if err := more.close(); err != nil {
		return r, err
	}
	r.cold, err = startCold(ctx, g, file)
	return r, err
}

// startCold returns the time until initialize is answered if the gateway must be started.
func startCold(ctx context.Context, g *rig, file string) (ms float64, err error) {
	state, err := os.MkdirTemp("", "b")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	environ := append(os.Environ(), "XDG_STATE_HOME="+state)
	c, took, err := startLines(ctx, environ, g.program, "attach", "--config", file)
	if err != nil {
		return 0, err
	}
	gateway, err := gatewayOf(ctx, g, environ, file)
	if err == nil {
		err = errors.Join(c.close(), syscall.Kill(gateway, syscall.SIGKILL))
	}
	return millis(took), err
}

// gatewayOf returns the process id of the gateway that attach has started.
func gatewayOf(ctx context.Context, g *rig, environ []string, file string) (int, error) {
	cmd := exec.CommandContext(ctx, g.program, "tools", "--config", file) //nolint:gosec // the program to measure
	cmd.Env = environ
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, said.String())
	}
	_, rest, _ := strings.Cut(said.String(), "using the running gateway, process ")
	word, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(word)
}
