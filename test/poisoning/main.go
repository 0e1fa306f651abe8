// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/signalbox-mcp/signalbox/internal/pins"
)

func main() {
	livemcp := flag.String("livemcp", "", "a checkout of icip-cas/LiveMCPBench")
	mcpproxy := flag.String("mcpproxy", "", "a checkout of smart-mcp-proxy/mcpproxy-go")
	dvmcp := flag.String("dvmcp", "", "a checkout of harishsg993010/damn-vulnerable-MCP-server")
	verbose := flag.Bool("v", false, "print the definitions with advice, and the attacks without")
	flag.Parse()
	if err := run(os.Stdout, *livemcp, *mcpproxy, *dvmcp, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "poisoning:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, livemcp, mcpproxy, dvmcp string, verbose bool) error {
	if livemcp == "" || mcpproxy == "" || dvmcp == "" {
		return errors.New("-livemcp, -mcpproxy and -dvmcp are needed: folders with checkouts of the three repositories")
	}
	var sets []*set
	for _, read := range []func() ([]*set, error){
		func() ([]*set, error) { return readLiveMCP(livemcp) },
		func() ([]*set, error) { return readLabelled(mcpproxy) },
		func() ([]*set, error) { return readVulnerable(dvmcp) },
	} {
		more, err := read()
		if err != nil {
			return err
		}
		sets = append(sets, more...)
	}
	fmt.Fprintln(out, "| definitions | number | held | with advice |")
	fmt.Fprintln(out, "|---|---|---|---|")
	var wrong []error
	for _, s := range sets {
		wrong = append(wrong, s.judge(out, verbose))
	}
	return errors.Join(wrong...)
}

// set is definitions of one kind.
type set struct {
	name   string
	hidden bool // all have hidden text; otherwise none has
	attack bool
	tools  []tool
}

// tool is a tool of a server.
type tool struct {
	id, server string
	definition json.RawMessage
	adviser    *pins.Adviser // with the tools of the other servers
}

// judge prints how many definitions are held and have advice. The error names those that are held or offered by mistake.
func (s *set) judge(out io.Writer, verbose bool) error {
	var wrong []error
	var details []string
	held, noted := 0, 0
	for _, t := range s.tools {
		var none *pins.Lock
		v := none.Judge(pins.Key{Server: t.server, Kind: pins.Tool, Name: t.id}, t.definition, pins.NewDigester(nil), nil, pins.Policy{})
		if v.Held() {
			held++
		}
		if v.Held() != s.hidden {
			wrong = append(wrong, fmt.Errorf("%s: %s: held is %t", s.name, t.id, v.Held()))
		}
		notes := t.adviser.Advise(t.server, t.definition)
		if notes != nil {
			noted++
		}
		if (notes != nil) != s.attack {
			details = append(details, fmt.Sprintf("%s %s: %+v", t.id, t.definition, notes))
		}
	}
	fmt.Fprintf(out, "| %s | %d | %d | %d |\n", s.name, len(s.tools), held, noted)
	if verbose {
		for _, d := range details {
			fmt.Fprintln(out, d)
		}
	}
	return errors.Join(wrong...)
}
