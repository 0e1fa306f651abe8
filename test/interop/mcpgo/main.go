// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mcpgo is the client of mcp-go, for the interop tests. It reads a JSON array of
// jobs from standard input and prints one JSON line per server and feature, and one when a
// session has closed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// featureLimit bounds a feature; briefLimit, one that is known not to work.
	featureLimit = 2 * time.Minute
	briefLimit   = 5 * time.Second
	sessions     = 4
)

// job is one session, as the test describes it.
type job struct {
	ID      int    `json:"id"`
	Version string `json:"version"`
	Era     string `json:"era"`
	Target  struct {
		URL, Token, Command string
		Args                []string
	} `json:"target"`
	Answers struct{ Name, Sample, Root string } `json:"answers"`
	Servers []server                            `json:"servers"`
}

// server describes the tests of one server. A missing member is a feature that it does not
// offer.
type server struct {
	Name       string     `json:"name"`
	Brief      []string   `json:"brief"`
	Tools      []string   `json:"tools"`
	Resources  []string   `json:"resources"`
	Templates  []string   `json:"templates"`
	Prompts    []string   `json:"prompts"`
	Call       *call      `json:"call"`
	Progress   *call      `json:"progress"`
	Log        *call      `json:"log"`
	Complete   []complete `json:"complete"`
	Read       []read     `json:"read"`
	Get        *call      `json:"get"`
	Elicit     *call      `json:"elicit"`
	Sample     *call      `json:"sample"`
	Roots      *call      `json:"roots"`
	Several    *call      `json:"several"`
	Kinds      *call      `json:"kinds"`
	Structured *call      `json:"structured"`
	Caps       []string   `json:"caps"`
	Instruct   string     `json:"instruct"`
	Changes    *change    `json:"changes"`
}

type call struct {
	Name       string         `json:"name"`
	Arguments  map[string]any `json:"arguments"`
	Want       string         `json:"want"`
	Steps      int            `json:"steps"`
	Eventually bool           `json:"eventually"`
	Stop       *call          `json:"stop"`
}

type complete struct {
	Ref      struct{ Type, Name, URI string } `json:"ref"`
	Argument struct{ Name, Value string }     `json:"argument"`
	Value    string                           `json:"value"`
}

type read struct {
	URI  string `json:"uri"`
	Text string `json:"text"`
}

type change struct {
	Kind   string `json:"kind"`
	Item   string `json:"item"`
	Add    call   `json:"add"`
	Use    *call  `json:"use"`
	Remove *call  `json:"remove"`
}

// outcome is the result of one feature.
type outcome struct {
	Job     int    `json:"job"`
	Server  string `json:"server"`
	Feature string `json:"feature"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
	MS      int64  `json:"ms"`
}

func main() {
	var jobs []job
	if err := json.NewDecoder(os.Stdin).Decode(&jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mcpgo:", err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, sessions)
	for _, j := range jobs {
		// Waited for below; each feature has a limit.
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			run(context.Background(), j)
		})
	}
	wg.Wait()
}

// run connects, tries all features, and closes.
func run(ctx context.Context, j job) {
	s, err := newSession(j)
	if err != nil {
		report(outcome{Job: j.ID, Feature: "connect", Error: err.Error()})
		return
	}
	if !try(ctx, j, server{}, "connect", s.connect) {
		_ = s.client.Close() // after a failed connect, close may fail too
		return
	}
	for _, p := range j.Servers {
		for _, f := range s.features(p) {
			try(ctx, j, p, f.name, f.run)
		}
	}
	try(ctx, j, server{}, "close", func(context.Context) error { return s.client.Close() })
}

// printing serializes lines.
var printing sync.Mutex //nolint:gochecknoglobals // standard output is global, too

// try runs one feature within its limit and prints the result.
func try(ctx context.Context, j job, p server, name string, run func(context.Context) error) bool {
	limit := featureLimit
	if slices.Contains(p.Brief, name) {
		limit = briefLimit
	}
	start := time.Now()
	// The SDK keeps the context of the connection for requests of the server.
	if name != "connect" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	o := outcome{Job: j.ID, Server: p.Name, Feature: name}
	if err := run(ctx); err != nil {
		o.Error = err.Error()
	}
	o.OK, o.MS = o.Error == "", time.Since(start).Milliseconds()
	report(o)
	return o.OK
}

func report(o outcome) {
	printing.Lock()
	defer printing.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(o) // without a reader there is nothing to do
}

func includes(got, want string) error {
	if !strings.Contains(got, want) {
		return fmt.Errorf("got %q, want %q in it", got, want)
	}
	return nil
}

func includesAll(got, want []string) error {
	for _, w := range want {
		if !slices.Contains(got, w) {
			return fmt.Errorf("%q is not in %q", w, got)
		}
	}
	return nil
}
