// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/bound"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Results is what becomes of large results of tools. A result that is larger than its limit is cut, and
// the rest is kept for its caller.
type Results struct {
	// Max is the size of the content of a result. Zero and negative are no limit.
	Max int64 `json:"max"`
	// Keep is how long the rest is kept. Negative is no limit.
	Keep time.Duration `json:"keep"`
	// Total is the size of all that is kept. Negative is no limit.
	Total int64 `json:"total"`
	// Structured is StructuredPass, StructuredError or StructuredCut, for results of tools with an output
	// schema. Empty is StructuredPass.
	Structured string `json:"structured"`
	// Clients are limits by the ids of clients, which are in internal/clients.
	Clients map[string]int64 `json:"clients"`
}

// ServerResults is what becomes of large results of the tools of a server.
type ServerResults struct {
	// Max replaces Results.Max. Zero is Results.Max, and negative is no limit.
	Max int64 `json:"max"`
}

// The values of Results.Structured.
const (
	StructuredPass  = "pass"
	StructuredError = "error"
	StructuredCut   = "cut"
)

// resultsKey is the key of Results, and of ServerResults.
const resultsKey = "results"

func resultsKeys() []key {
	return []key{
		// No default: a tool may be called by a program that needs all of its result.
		{"max", size(), "", "The size of the content of a result of a tool. A larger result is cut, and a tool read_result reads the rest. At least 4KiB. Without it, only the limits of servers and clients apply."},
		// A conversation comes back to a result within minutes.
		{"keep", duration(), "30m", "How long the whole result is kept in memory."},
		{"total", size(), "256MiB", "The size of all results that are kept. Beyond it the oldest are dropped. One principal may have a quarter of it; without \"auth\" all clients together may have all."},
		// A client validates such a result, and would refuse half of it.
		{"structured", oneOf(StructuredPass, StructuredError, StructuredCut), StructuredPass, "What becomes of a large result of a tool with an output schema, which cannot be cut: it is sent whole, up to \"limits.backendMessage\" (pass), or an error takes its place, and the result can be read in pieces (error), or the tool is listed without the schema, and the result is cut as any other (cut)."},
		// Some clients cut results themselves, so that their model cannot read the rest.
		{"clients", mapOf(size()), "", "Limits for some clients, such as codex, by the name that they declare: " + strings.Join(clients.Named(), ", ") + ". Of the limits of the server and of the client the smaller one applies, and \"max\" if there are none."},
	}
}

func serverResultsKeys() []key {
	return []key{
		{"max", size(), "", "The size of the content of a result, instead of \"results.max\". none sends the results of the server whole."},
	}
}

// CutsResults reports whether results of some tool may be cut.
func (c *Config) CutsResults() bool {
	for _, most := range c.Results.Clients {
		if most > 0 {
			return true
		}
	}
	isSet := func(s Backend) bool { return !s.Disabled && s.Results != nil && s.Results.Max > 0 }
	return c.Results.Max > 0 || slices.ContainsFunc(c.Servers, isSet)
}

// MaxResult returns the size of the content of a result of a tool of a server, for a client by its id, or
// 0 without a limit. The server may be one that is not configured.
func (c *Config) MaxResult(server, client string) int64 {
	most, isServers := c.Results.Max, false
	if s := c.server(server); s != nil && s.Results != nil && s.Results.Max != 0 {
		most, isServers = s.Results.Max, true
	}
	if own := c.Results.Clients[client]; own != 0 && !isServers || own > 0 && own < most {
		most = own
	}
	return max(0, most)
}

// CutsResultsOf reports whether results of a server may be cut, for some client.
func (c *Config) CutsResultsOf(server string) bool {
	for client := range c.Results.Clients {
		if c.MaxResult(server, client) > 0 {
			return true
		}
	}
	return c.MaxResult(server, "") > 0
}

// ListsUntyped reports whether the tools of a server are listed without their output schemas, so that their
// results may be cut.
func (c *Config) ListsUntyped(server string) bool {
	return c.Results.Structured == StructuredCut && c.CutsResultsOf(server)
}

func checkResults(c *Config, r *reader) {
	p := place{}.key(resultsKey)
	checkWord(r, p.key("structured"), c.Results.Structured, StructuredPass, StructuredError, StructuredCut)
	checkMaxResult(c.Results.Max, p.key("max"), r)
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Results != nil && !s.Disabled {
			checkMaxResult(s.Results.Max, s.place().key(resultsKey).key("max"), r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Results.Clients)) {
		at := p.key("clients").key(id)
		if known := clients.Named(); !slices.Contains(known, id) {
			cure := cmp.Or(spelling.DidYouMean(id, known), "write one of "+strings.Join(known, ", "))
			r.report(at, cure, "%.80q is not the id of a client with a known name", id)
			continue
		}
		checkMaxResult(c.Results.Clients[id], at, r)
	}
	noteResults(c, p, r)
}

// noteResults notes settings that have no effect.
func noteResults(c *Config, p place, r *reader) {
	if !c.CutsResults() {
		noEffect := func(name string, isSet bool) {
			if isSet {
				r.note(p.key(name), `add "max"`, "it has no effect: no result is cut")
			}
		}
		noEffect("keep", c.Results.Keep != 0)
		noEffect("total", c.Results.Total != 0)
		noEffect("structured", c.Results.Structured != "" && c.Results.Structured != StructuredPass)
		return
	}
	inForce, largest := c.Effective(), int64(0)
	measure := func(most int64, at place) {
		if message := inForce.Limits.BackendMessage; message > 0 && most >= message {
			r.note(at, `write less than "limits.backendMessage"`, "it has no effect: larger results are errors")
			return
		}
		largest = max(largest, most)
	}
	measure(c.Results.Max, p.key("max"))
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Results != nil && !s.Disabled {
			measure(s.Results.Max, s.place().key(resultsKey).key("max"))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Results.Clients)) {
		measure(c.Results.Clients[id], p.key("clients").key(id))
	}
	if c.Results.Keep > 0 && c.Results.Keep < minKept {
		r.note(p.key("keep"), `write at least "1s"`, "a result is dropped before the rest of it can be read")
	}
	least, of := largest, ""
	if !c.Auth.IsZero() {
		least, of = bound.OwnerShare*largest, ", since one principal may have a quarter"
	}
	if total := inForce.Results.Total; total > 0 && total < least {
		r.note(p.key("total"), fmt.Sprintf("write at least %q%s", formatBytes(least), of), "a result of more than %s is kept only if it can be compressed", formatBytes(largest))
	}
}

// minKept is below the time that a model takes to ask for more of a result.
const minKept = time.Second

// checkMaxResult requires that a result has room for more than how to read the rest.
func checkMaxResult(most int64, at place, r *reader) {
	if most > 0 && most < bound.MinResult && !r.has(at) {
		r.report(at, `write at least "4KiB"`, "%q leaves no room for text beside the note that the result was cut", at.name)
	}
}
