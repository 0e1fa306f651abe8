// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// inbound is the mode of the client of a transcript.
type inbound struct {
	version   mcp.Version
	transport string // "http", "http2", "stdio" or "sse"
}

// overHTTP reports whether it is Streamable HTTP, over either version of HTTP.
func (m inbound) overHTTP() bool { return m.transport == "http" || m.transport == "http2" }

func (m inbound) modern() bool { return m.version.Era() == mcp.EraModern }

// isRare reports whether the mode differs from another one of its era in little but the
// client's edge: it is played with one backend of each era.
func (m inbound) isRare() bool {
	return m.older() || m.transport == "sse" || m.transport == "http2"
}

// older reports whether there is a newer revision of the same era.
func (m inbound) older() bool { return !m.modern() && m.version != mcp.LatestLegacy }

func (m inbound) String() string { return string(m.version) + "-" + m.transport }

func (m inbound) tags() []string {
	all := []string{m.version.Era().String(), m.transport, string(m.version)}
	switch m.transport {
	case "http":
		all = append(all, "http1")
	case "http2":
		all = append(all, "http")
	}
	return all
}

// outbound is the mode of the backends of a transcript: "http", "sse", "pipe", or a
// direct call of the Handler in this process.
type outbound struct {
	era       string // "modern", "legacy" or "process"
	transport string // "http", "sse", "pipe" or "process"
}

func (m outbound) String() string {
	if m.era == m.transport {
		return "in-process"
	}
	return m.era + "-" + m.transport
}

func (m outbound) tags() []string { return []string{m.era, m.transport} }

// inbounds returns the usual modes of a client.
func inbounds() []inbound {
	return []inbound{
		{mcp.V20251125, "http"}, {mcp.V20260728, "http"}, {mcp.V20250618, "http"}, {mcp.V20250326, "http"},
		{mcp.V20251125, "stdio"}, {mcp.V20260728, "stdio"}, {mcp.V20251125, "sse"},
		{mcp.V20251125, "http2"}, {mcp.V20260728, "http2"},
	}
}

// rareInbounds returns the modes of a client that are rare by now: only the files that
// name the revision are played in them, and these with every backend.
func rareInbounds() []inbound {
	return []inbound{{mcp.V20241105, "http"}, {mcp.V20241105, "stdio"}, {mcp.V20241105, "sse"}}
}

// outbounds returns all modes of a backend.
func outbounds() []outbound {
	return []outbound{{"modern", "http"}, {"legacy", "http"}, {"modern", "pipe"}, {"legacy", "pipe"}, {"legacy", "sse"}, {"process", "process"}}
}

type pair struct {
	in  inbound
	out outbound
}

func (p pair) String() string { return p.in.String() + "-to-" + p.out.String() }

// cell returns the eras of both sides, as "legacy/modern".
func (p pair) cell() string { return p.in.version.Era().String() + "/" + p.out.era }

// restrictions are the modes that a file applies to. Each is in the prose on a line of
// its own, with the reason after a dash:
//
//	inbound: legacy http - only there is a standalone stream
//	backend: http, pipe - a Handler in this process cannot die
//	cells: legacy/legacy, legacy/modern, modern/modern - ...
//
// Alternatives are separated by commas; all words of one of them must apply.
//
// A line "profile: search - ..." names the profile that its clients use.
type restrictions struct {
	inbound, backend, cells [][]string

	profile string
}

func readRestrictions(prose string) (restrictions, error) {
	var r restrictions
	for line := range strings.Lines(prose) {
		key, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !slices.Contains([]string{"inbound", "backend", "cells", "profile"}, key) {
			continue
		}
		value, reason, ok := strings.Cut(rest, " - ")
		if !ok || strings.TrimSpace(reason) == "" {
			return r, fmt.Errorf("restriction without a reason: %q", line)
		}
		switch alternatives := readAlternatives(value); key {
		case "inbound":
			r.inbound = alternatives
		case "backend":
			r.backend = alternatives
		case "profile":
			r.profile = strings.TrimSpace(value)
		default:
			r.cells = alternatives
		}
	}
	return r, nil
}

func readAlternatives(value string) [][]string {
	var out [][]string
	for alternative := range strings.SplitSeq(value, ",") {
		out = append(out, strings.Fields(alternative))
	}
	return out
}

// allowed reports whether one of the alternatives has only words of the tags.
func allowed(alternatives [][]string, tags ...string) bool {
	if alternatives == nil {
		return true
	}
	return slices.ContainsFunc(alternatives, func(words []string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(tags, w) })
	})
}

// inbounds returns the modes of a client that a file may be played in.
func (r restrictions) inbounds() []inbound {
	return append(inbounds(), slices.DeleteFunc(rareInbounds(), func(in inbound) bool {
		return !slices.ContainsFunc(r.inbound, func(words []string) bool { return slices.Contains(words, string(in.version)) })
	})...)
}

// pairs returns the pairs that a file is played in: each transport and era of a client
// with each transport and era of a backend that the file applies to, because defects of
// one pair are easily overlooked. The older revisions of the legacy era, its first
// transport, and HTTP/2, which differ from others at the client's edge only, are played
// with one backend of each era.
func (r restrictions) pairs() []pair {
	var out []pair
	for _, in := range r.inbounds() {
		met := map[string]bool{}
		for _, o := range outbounds() {
			p := pair{in, o}
			if !allowed(r.inbound, in.tags()...) || !allowed(r.backend, o.tags()...) || !allowed(r.cells, p.cell()) {
				continue
			}
			enough := met[o.era] || o.era == "process" && len(met) > 0
			if in.isRare() && enough && !slices.Contains(rareInbounds(), in) {
				continue
			}
			met[o.era] = true
			out = append(out, p)
		}
	}
	return out
}

// sample returns enough of the pairs to include both eras of a client and all three of
// a backend. It differs from file to file, so that each pair is played in several
// files: a defect of a pair rarely shows in one file only, and playing all pairs takes
// longer than suits a quick test. A revision that few files name is played in all of
// its pairs.
func sample(file string, pairs []pair) []pair {
	h := fnv.New64a()
	h.Write([]byte(file))
	met := make(map[string]bool)
	var out []pair
	for _, i := range rand.New(rand.NewPCG(h.Sum64(), 0)).Perm(len(pairs)) {
		p := pairs[i]
		in, to := "from "+p.in.version.Era().String(), "to "+p.out.era
		if met[in] && met[to] && !slices.Contains(rareInbounds(), p.in) {
			continue
		}
		met[in], met[to] = true, true
		out = append(out, p)
	}
	return out
}
