// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/config"
)

var (
	update = flag.Bool("update", false, "rewrite the expected lines of testdata")
	all    = flag.Bool("all", os.Getenv("TRANSCRIPTS") == "all", "play each transcript in every pair that it applies to; TRANSCRIPTS=all has the same effect")
)

func TestMain(m *testing.M) {
	// A thousand worlds are created and dropped: memory is cheaper here than time, up
	// to what a small machine has.
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(600 << 20)
	goleak.VerifyTestMain(m)
}

// TestTranscript plays each file of testdata between real peers: with -all
// once for each pair of an inbound and an outbound mode that the file applies to, and
// otherwise in some of them. testdata/README.md describes the language.
func TestTranscript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			testTranscript(t, file)
		})
	}
}

func testTranscript(t *testing.T, file string) {
	d := readTranscript(t, file)
	pairs := d.modes.pairs()
	if len(pairs) == 0 {
		t.Fatalf("%s: applies to no mode", file)
	}
	if *update {
		play(t, d, pairs[0], true)
		d.write(t)
	}
	if !*all {
		pairs = sample(filepath.Base(file), pairs)
	}
	for _, p := range pairs {
		t.Run(p.String(), func(t *testing.T) { play(t, d, p, false) })
	}
}

// play runs a transcript once, in a bubble of its own. With record it stores what
// happened as the expectation.
func play(t *testing.T, d *transcript, p pair, record bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, d, p)
		for i := range d.script {
			cmd := &d.script[i]
			w.do(cmd)
			got := w.settle()
			if record {
				cmd.want = got
				continue
			}
			if diff := cmp.Diff(cmd.want, got); diff != "" {
				t.Fatalf("%s:%d: %s\n(-want +got)\n%s", d.file, cmd.line, cmd.text(), diff)
			}
		}
	})
}

// transcript is one file.
type transcript struct {
	file    string
	archive *txtar.Archive
	modes   restrictions
	config  config.Config
	configs map[string]config.Config // by the name of the file in the archive
	script  []command
	tail    []string // comments after the last command
}

// command is one line of a script that makes something happen, and the lines that are
// expected to follow.
type command struct {
	lead  []string // comments and blank lines before it
	line  int
	actor string // "client", "backend", "gateway", "http", "stdio" or "advance"
	name  string // of the client or backend, or ""
	rest  string
	body  []string // indented lines that belong to it
	want  []string
}

func (c *command) text() string {
	switch {
	case c.actor == "advance":
		return "advance " + c.rest
	case c.name == "":
		return c.actor + "> " + c.rest
	default:
		return c.actor + " " + c.name + "> " + c.rest
	}
}

const scriptName = "transcript"

func readTranscript(t *testing.T, file string) *transcript {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &transcript{file: file, archive: archive, configs: make(map[string]config.Config), config: defaultConfig()}
	if d.modes, err = readRestrictions(string(archive.Comment)); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	offset := strings.Count(string(archive.Comment), "\n")
	for _, f := range archive.Files {
		offset++
		if f.Name == scriptName {
			d.readScript(t, string(f.Data), offset)
		} else {
			d.configs[f.Name] = loadConfig(t, f)
		}
		offset += strings.Count(string(f.Data), "\n")
	}
	if c, ok := d.configs["config.yaml"]; ok {
		d.config = c
	}
	return d
}

// defaultConfig has a version of its own, so that transcripts do not depend on the
// build.
func defaultConfig() config.Config { return config.Config{Version: "1"} }

func loadConfig(t *testing.T, f txtar.File) config.Config {
	t.Helper()
	// Without a file, so that problems have no random path.
	c, err := config.Parse(f.Name, f.Data, func(name string) (string, bool) { return longToken("value-of-" + name), true })
	if err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	if c.Version == "" {
		c.Version = defaultConfig().Version
	}
	return *c
}

func (d *transcript) readScript(t *testing.T, text string, offset int) {
	t.Helper()
	var lead []string
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		last := len(d.script) - 1
		head, _, _ := strings.Cut(line, " ")
		cmd, isCommand := parseCommand(line)
		switch {
		case line == "" || head == "#":
			lead = append(lead, line)
		case isCommand:
			cmd.lead, cmd.line = lead, offset+i+1
			d.script = append(d.script, cmd)
			lead = nil
		case last < 0 || len(lead) > 0:
			t.Fatalf("%s:%d: belongs to no command: %s", d.file, offset+i+1, line)
		case strings.HasPrefix(line, "  "):
			d.script[last].body = append(d.script[last].body, strings.TrimPrefix(line, "  "))
		default:
			d.script[last].want = append(d.script[last].want, compactLine(line))
		}
	}
	d.tail = lead
}

// parseCommand reads "advance 30s", "client> ...", "backend a> ...".
func parseCommand(line string) (command, bool) {
	if rest, ok := strings.CutPrefix(line, "advance "); ok {
		return command{actor: "advance", rest: rest}, true
	}
	who, rest, ok := strings.Cut(line, ">")
	actor, name, _ := strings.Cut(who, " ")
	if !ok || strings.ContainsAny(who, "<{\"") || strings.Contains(name, " ") {
		return command{}, false
	}
	return command{actor: actor, name: name, rest: strings.TrimSpace(rest)}, true
}

// write writes the script, with what happened, to the file.
func (d *transcript) write(t *testing.T) {
	t.Helper()
	var lines []string
	for i := range d.script {
		cmd := &d.script[i]
		lines = append(append(lines, cmd.lead...), cmd.text())
		for _, b := range cmd.body {
			lines = append(lines, "  "+b)
		}
		lines = append(lines, cmd.want...)
	}
	lines = append(lines, d.tail...)
	for i := range d.archive.Files {
		if d.archive.Files[i].Name == scriptName {
			d.archive.Files[i].Data = []byte(strings.Join(lines, "\n") + "\n")
		}
	}
	if err := os.WriteFile(d.file, txtar.Format(d.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
