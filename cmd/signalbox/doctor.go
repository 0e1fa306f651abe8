// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/imports"
	"github.com/signalbox-mcp/signalbox/internal/shellpath"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

const (
	// doctorTime bounds the checks, and doctorWait how long they wait for a server. The
	// difference is for its tools and its end.
	doctorTime = 15 * time.Second
	doctorWait = 13 * time.Second

	// doctorInterval is how often a server's state is read.
	doctorInterval = 20 * time.Millisecond
)

func newDoctor(e *env) *cobra.Command {
	var file string
	var asJSON, fix, yes bool
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Find what is wrong with the servers of a configuration",
		Long: `Check the configuration file, start each server by itself, and print what works, what
does not, and what to do about it. Then check the port, the running gateway of the file,
and the clients. With NAME, only that server is checked.

It takes 15 seconds at most, and ends all that it has started. A running gateway and its
servers are not disturbed. docs/codes.md explains the codes.

Nothing is changed, except with --fix: it asks for each finding that a change of the
configuration file corrects, writes it, and checks again.

The exit code is 0 if nothing failed, 3 if all that failed may pass without a change, and
otherwise 1.`,
		Args: argsBetween(0, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			src := e.source(file)
			if !src.hasFile() {
				return usagef("%s; name the file with --config", e.nothingFound())
			}
			if fix && asJSON {
				return usagef("both --fix and --json; choose one")
			}
			found, err := e.doctor(cmd.Context(), src, strings.Join(args, ""), asJSON)
			if fix && err == nil {
				return e.fix(cmd.Context(), src, strings.Join(args, ""), found, yes)
			}
			if err == nil && !asJSON {
				err = e.printFixable(src, found)
			}
			return cmp.Or(err, needsAttention(found))
		},
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	cmd.Flags().BoolVar(&fix, "fix", false, "ask for each finding that a change of the file corrects, and write it")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --fix, write without a question")
	return cmd
}

// The results of checks.
const (
	resultOK   = "ok"
	resultWarn = "warn" // it works
	resultFail = "fail"
)

// finding is the result of one check.
type finding struct {
	Kind    string  `json:"kind"` // config, server, port, gateway, clients or processes
	Name    string  `json:"name"` // that of a server; otherwise the kind
	Result  string  `json:"result"`
	Code    string  `json:"code,omitzero"`
	Text    string  `json:"text"`
	Fix     string  `json:"fix,omitzero"`
	Passes  bool    `json:"passes,omitzero"` // may pass without a change
	Version string  `json:"version,omitzero"`
	Tools   int     `json:"tools,omitzero"`
	Bytes   int     `json:"bytes,omitzero"`   // of the tools' definitions
	Seconds float64 `json:"seconds,omitzero"` // until the lists were known

	path string // of the place in the file, as that of a config.Problem
}

// doctor checks a file and prints the findings. name selects one server, unless empty.
func (e *env) doctor(ctx context.Context, src source, name string, asJSON bool) ([]finding, error) {
	found, err := e.examineFor(ctx, src, name)
	if err != nil {
		return nil, err
	}
	if !asJSON {
		_, err := e.Stdout.Write(e.findingsTable(found))
		return found, err
	}
	text, err := json.Marshal(map[string]any{"file": src.path, "findings": found}, json.Deterministic(true), jsontext.WithIndent(" "))
	if err != nil {
		return nil, err
	}
	return found, e.printJSON(text)
}

// examineFor is examine with a bound, for a user who may interrupt it.
func (e *env) examineFor(ctx context.Context, src source, name string) ([]finding, error) {
	interrupted, done := e.interruptible(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(interrupted, doctorTime)
	defer cancel()
	found, err := e.examine(ctx, src, name)
	if interrupted.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return found, err
}

// examine makes all checks. The error is about the name.
func (e *env) examine(ctx context.Context, src source, name string) ([]finding, error) {
	cfg, err := src.load()
	if err != nil {
		found := invalidFile(src.path, err)
		gateway, _ := e.checkGateway(ctx, src.path)
		return append(found, gateway), nil
	}
	leaveSelf(cfg)
	servers, err := selectServers(cfg, name)
	if err != nil {
		return nil, err
	}
	found := []finding{validFile(src.path, cfg)}
	if name == "" {
		for _, note := range cfg.Notes {
			if !slices.ContainsFunc(cfg.Servers, func(s config.Backend) bool { return isAbout(note, s.Name) }) {
				found = append(found, noteFinding("config", "config", note))
			}
		}
	}
	if e.Terminal(e.Stderr) && len(servers) > 0 {
		e.printError(fmt.Sprintf("starting %s; this takes up to %v", plural(len(servers), "server"), doctorTime))
	}
	var tried []finding
	var all sync.WaitGroup
	// Ends with ctx; waited for below.
	all.Go(func() { tried = e.checkServers(ctx, cfg, servers) })
	var rest []finding
	if name == "" {
		// Ends with ctx; waited for below.
		all.Go(func() {
			gateway, running := e.checkGateway(ctx, src.path)
			rest = []finding{checkPort(ctx, cfg, running), gateway}
			if f, ok := e.checkClients(src); ok {
				rest = append(rest, f)
			}
			if f, ok := checkLeft(src.path); ok {
				rest = append(rest, f)
			}
		})
	}
	all.Wait()
	return slices.Concat(found, tried, rest), nil
}

// checkServers checks servers, each by itself.
func (e *env) checkServers(ctx context.Context, cfg *config.Config, servers []config.Backend) []finding {
	shellPath := func() string { return e.loginPath(ctx) }
	results := make([][]finding, len(servers))
	var all sync.WaitGroup
	for i := range servers {
		// Ends with ctx; waited for below.
		all.Go(func() { results[i] = checkServer(ctx, cfg, servers[i], shellPath) })
	}
	all.Wait()
	return slices.Concat(results...)
}

// selectServers returns the enabled servers, or the one with the name.
func selectServers(cfg *config.Config, name string) ([]config.Backend, error) {
	var enabled []config.Backend
	var names []string
	for _, s := range cfg.Servers {
		if s.Name == name && s.Disabled {
			return nil, fmt.Errorf("server %q is disabled; 'signalbox enable %s' enables it", name, name)
		}
		names = append(names, s.Name)
		if !s.Disabled && (name == "" || s.Name == name) {
			enabled = append(enabled, s)
		}
	}
	if name == "" || enabled != nil {
		return enabled, nil
	}
	hint := spelling.DidYouMean(name, names)
	return nil, usagef("the file has no server %q; %s", name, cmp.Or(hint, "it has: "+strings.Join(names, ", ")))
}

// invalidFile returns the findings for a file that cannot be used.
func invalidFile(path string, err error) []finding {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return []finding{{Kind: "config", Name: "config", Result: resultFail, Text: err.Error()}}
	}
	var found []finding
	for _, p := range problems {
		f := noteFinding("config", "config", p)
		f.Result = resultFail
		found = append(found, f)
	}
	return append(found, finding{
		Kind: "config", Name: "config", Result: resultWarn,
		Text: "no server of " + path + " was started, because the file has " + plural(len(problems), "problem"),
	})
}

func validFile(path string, cfg *config.Config) finding {
	enabled := 0
	for i := range cfg.Servers {
		if !cfg.Servers[i].Disabled {
			enabled++
		}
	}
	text := path + ", " + plural(enabled, "server")
	if disabled := len(cfg.Servers) - enabled; disabled > 0 {
		text += fmt.Sprintf(", %d more disabled", disabled)
	}
	return finding{Kind: "config", Name: "config", Result: resultOK, Text: text}
}

// noteFinding returns the finding for a note on the file.
func noteFinding(kind, name string, note config.Problem) finding {
	f := finding{Kind: kind, Name: name, Result: resultWarn, Code: note.Code, Fix: cmp.Or(note.Hint, codeEntry(note.Code).Cure)}
	f.path = note.Path
	note.Code, note.Hint = "", ""
	f.Text = note.String()
	return f
}

// isAbout reports whether a note is about a server or a part of its entry.
func isAbout(note config.Problem, server string) bool {
	rest, ok := strings.CutPrefix(note.Path, "mcpServers."+server)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}

// codeEntry returns the description of a code; its fields are empty if the code is unknown.
func codeEntry(c string) code.Entry {
	for _, entry := range code.All() {
		if entry.Code == c {
			return entry
		}
	}
	return code.Entry{}
}

// onlyServer returns a configuration with one server, without what concerns others or calls.
func onlyServer(cfg *config.Config, srv config.Backend) config.Config {
	one := *cfg
	one.Servers, one.Profiles, one.Audit = []config.Backend{srv}, nil, config.Audit{}
	one.Auth.Tokens = slices.Clone(cfg.Auth.Tokens)
	for i := range one.Auth.Tokens {
		one.Auth.Tokens[i].Profiles = nil
	}
	return one
}

// checkServer starts a gateway with one server of the configuration, and ends it.
func checkServer(ctx context.Context, cfg *config.Config, srv config.Backend, shellPath func() string) []finding {
	var found []finding
	add := func(f finding) {
		f.Kind, f.Name = "server", srv.Name
		found = append(found, f)
	}
	one := onlyServer(cfg, srv)
	gw, err := signalbox.New(one, signalbox.Options{Grace: promptGrace, Logger: slog.New(slog.DiscardHandler)}) //nolint:contextcheck // it lives until Close
	if err != nil {
		add(finding{Result: resultFail, Text: err.Error()})
		return found
	}
	started := time.Now()
	b := awaitServer(ctx, gw)
	if b.State == "live" {
		add(liveFinding(ctx, gw, &b, time.Since(started)))
		if b.OtherOutput != "" {
			add(finding{Result: resultWarn, Code: code.TalkOtherOutput, Text: b.OtherOutput, Fix: codeEntry(code.TalkOtherOutput).Cure})
		}
		for _, p := range gw.Status().Problems {
			text, c := splitCode(strings.TrimPrefix(p, "backend "+strconv.Quote(srv.Name)+": "))
			add(finding{Result: resultWarn, Code: c, Text: text, Fix: codeEntry(c).Cure})
		}
	} else {
		add(downFinding(&b, &srv, shellPath))
	}
	if err := gw.Close(); err != nil { //nolint:contextcheck // it ends even if ctx has ended
		add(finding{Result: resultFail, Text: fmt.Sprintf("it could not be ended: %v", err)})
	}
	for _, note := range cfg.Notes {
		// A program that is missing has a note, too.
		if isAbout(note, srv.Name) && (note.Code == "" || note.Code != found[0].Code) {
			note.File = filepath.Base(note.File) // the whole path is in the first finding
			add(noteFinding("server", srv.Name, note))
		}
	}
	return found
}

// awaitServer waits until the lists of the only server are known or have failed, and returns
// its last state.
func awaitServer(ctx context.Context, gw *signalbox.Gateway) signalbox.BackendStatus {
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	tick := time.NewTicker(doctorInterval)
	defer tick.Stop()
	for {
		b := gw.Status().Backends[0]
		if b.State != "starting" {
			return b
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return b
		}
	}
}

// liveFinding describes what a server lists, and the size of its tools.
func liveFinding(ctx context.Context, gw *signalbox.Gateway, b *signalbox.BackendStatus, ready time.Duration) finding {
	f := finding{Result: resultOK, Version: string(b.Version), Tools: b.Tools, Seconds: ready.Seconds()}
	tools, err := toolList().fetch(ctx, gw)
	if err != nil {
		f.Result, f.Text = resultFail, fmt.Sprintf("list the tools: %v", err)
		return f
	}
	for _, tool := range tools {
		f.Bytes += len(tool)
	}
	counts := itemCounts(b)
	if b.Tools > 0 {
		count := plural(b.Tools, "tool")
		counts = fmt.Sprintf("%s (≈%s tokens)%s", count, sizeOf(f.Bytes), strings.TrimPrefix(counts, count))
	}
	f.Text = fmt.Sprintf("%s, %s, ready in %.1f s", counts, b.Version, ready.Seconds())
	return f
}

// downFinding describes why a server does not work, and what to do about it.
func downFinding(b *signalbox.BackendStatus, srv *config.Backend, shellPath func() string) finding {
	f := finding{Result: resultFail, Code: b.Code, Text: b.Reason}
	if b.State == "starting" {
		f.Code = code.TalkSilent
		f.Text = fmt.Sprintf("it did not answer within %v", doctorWait)
		if b.OtherOutput != "" {
			f.Code, f.Text = code.TalkOtherOutput, f.Text+"; "+b.OtherOutput
		}
	}
	entry := codeEntry(f.Code)
	f.Fix, f.Passes = entry.Cure, entry.Passes
	words, err := imports.Words(srv.Command)
	if err != nil {
		words = strings.Fields(srv.Command)
	}
	switch {
	case f.Code == code.TalkSilent:
		f.Fix = "If it installs something, try again. Otherwise start it by hand and watch it."
	case f.Code == code.TalkExited:
		f.Fix = "Start it by hand with the same arguments and variables."
	case f.Code == code.StartOneString && len(words) > 1:
		args, err := json.Marshal(slices.Concat(words[1:], srv.Args))
		if err == nil {
			f.Fix = fmt.Sprintf("command: %s, args: %s", words[0], args)
		}
	case f.Code == code.StartNotFound && !strings.ContainsAny(srv.Command, `/\`):
		if _, err := exec.LookPath(srv.Command); err == nil {
			break // what is missing is its interpreter
		}
		if program := shellpath.Find(shellPath(), srv.Command); program != "" {
			f.Text += "; your login shell has it: " + program
			f.Fix = "command: " + program
		}
	}
	return f
}

// splitCode splits a text from the code in brackets at its end.
func splitCode(text string) (before, c string) {
	if before, c, ok := strings.Cut(text, " [SB_"); ok && strings.HasSuffix(c, "]") {
		return before, "SB_" + strings.TrimSuffix(c, "]")
	}
	return text, ""
}

// checkGateway returns the finding on the running gateway of a file, and that gateway, or nil.
func (e *env) checkGateway(ctx context.Context, file string) (finding, *gatewayInfo) {
	f := finding{Kind: "gateway", Name: "gateway", Result: resultOK, Text: "none is running with this file"}
	gateways, err := e.runningGateways(ctx, file)
	if len(gateways) == 0 {
		if err != nil {
			f.Result, f.Text, f.Fix = resultFail, err.Error(), "end that process, and start it again"
		}
		return f, nil
	}
	defer closeIdle(gateways)
	running := gateways[0]
	s, err := statusAt(ctx, running.socket)
	switch {
	case err != nil:
		f.Result, f.Text, f.Fix = resultFail, fmt.Sprintf("process %d: %v", running.Process, err), "end that process, and start it again"
	case s.ReloadRefused != nil:
		f.Result, f.Fix = resultWarn, "correct the file, or run 'signalbox reload'; 'signalbox status' has the reason"
		f.Text = fmt.Sprintf("process %d serves an earlier content of the file", running.Process)
	default:
		live := 0
		for i := range s.Backends {
			if s.Backends[i].State == "live" {
				live++
			}
		}
		f.Text = fmt.Sprintf("process %d serves the file, %d of %s live", running.Process, live, plural(len(s.Backends), "backend"))
	}
	return f, running.gatewayInfo
}

// checkPort checks that the gateway of the file can listen, or does so.
func checkPort(ctx context.Context, cfg *config.Config, running *gatewayInfo) finding {
	f := finding{Kind: "port", Name: "port", Result: resultOK}
	effective := cfg.Effective()
	if running != nil {
		_, port, err := net.SplitHostPort(effective.Listen)
		if u, uerr := url.Parse(running.URL); err == nil && uerr == nil && u.Port() == port {
			f.Text = fmt.Sprintf("%s is that of process %d, the running gateway", effective.Listen, running.Process)
			return f
		}
	}
	if err := canListen(ctx, effective); err != nil {
		text, c := splitCode(err.Error())
		f.Result, f.Code, f.Passes = resultFail, c, codeEntry(c).Passes
		f.Text, f.Fix, _ = strings.Cut(text, "; ")
		return f
	}
	f.Text = effective.Listen + " is free"
	return f
}

// findingsTable formats findings as a table, with each fix below its finding. Hidden characters
// are escaped, as in other tables, and the home folder is abbreviated.
func (e *env) findingsTable(found []finding) []byte {
	name, width := 0, 0
	for _, f := range found {
		name = max(name, utf8.RuneCountInString(visibleLine(f.Name)))
		width = max(width, len(f.Code))
	}
	var b bytes.Buffer
	for _, f := range found {
		result := f.Result
		if result == resultFail {
			result = strings.ToUpper(result)
		}
		fmt.Fprintf(&b, "%-*s  %-4s  ", name, visibleLine(f.Name), result)
		if f.Code != "" {
			fmt.Fprintf(&b, "%-*s  ", width, visibleLine(f.Code))
		}
		b.WriteString(visibleLine(e.tilde(f.Text)) + "\n")
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-*s        fix: %s\n", name, "", visibleLine(f.Fix))
		}
	}
	return b.Bytes()
}

// needsAttention returns the error of a command with failed checks, or nil.
func needsAttention(found []finding) error {
	var failed, passing []string
	noun := "server"
	for _, f := range found {
		if f.Result != resultFail {
			continue
		}
		names := &failed
		if f.Passes {
			names = &passing
		}
		if !slices.Contains(*names, f.Name) {
			*names = append(*names, f.Name)
		}
		if f.Kind != "server" {
			noun = "check"
		}
	}
	later := fmt.Sprintf("%s failed, which may pass without a change: %s", plural(len(passing), noun), strings.Join(passing, ", "))
	switch {
	case failed == nil && passing == nil:
		return nil
	case failed == nil:
		return strictf("%s", later)
	}
	verb := "need"
	if len(failed) == 1 {
		verb = "needs"
	}
	text := fmt.Sprintf("%s %s attention: %s", plural(len(failed), noun), verb, strings.Join(failed, ", "))
	if passing != nil {
		text += "; " + later
	}
	return errors.New(text)
}
