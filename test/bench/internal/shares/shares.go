// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares attributes the time of a program, from a CPU profile, to a few parts that
// can be optimized.
package shares

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Share is a part of a program, and its share of the time, between 0 and 1.
type Share struct {
	Part string
	Of   float64
}

// module is the gateway's module path. The rest of a function's name begins with the
// package.
const module = "github.com/signalbox-mcp/signalbox"

// rule assigns to a part the samples with one of its functions on the stack.
type rule struct {
	part      string
	functions []string // prefixes of names
}

// rules returns the rules in order of precedence. Work of the runtime for other code comes
// first, because that code can avoid it. The remaining samples belong to the package of the
// code.
func rules() []rule {
	return []rule{
		{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcStart", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcMarkTermination"}},
		{"stacks that grow", []string{"runtime.newstack", "runtime.morestack"}},
		{"allocation", []string{"runtime.mallocgc", "runtime.growslice", "runtime.makeslice", "runtime.newobject"}},
		{"system calls, sockets", []string{"internal/poll.(*FD).Read", "internal/poll.(*FD).Write", "internal/poll.(*FD).Accept", "internal/poll.(*FD).Raw"}},
		{"scheduling", []string{"runtime.mcall", "runtime.schedule", "runtime.park_m", "runtime.ready", "runtime.goready", "runtime.mstart", "runtime.newproc"}},
		{"contexts and timers", []string{"context.", "time.(*Timer)", "time.AfterFunc", "time.NewTimer", "runtime.(*timer)"}},
	}
}

// Of reads a CPU profile and returns the shares, the largest first.
func Of(r io.Reader) ([]Share, error) {
	p, err := profile.Parse(r)
	if err != nil {
		return nil, err
	}
	spent, total := make(map[string]float64), 0.0
	for _, s := range p.Sample {
		time := float64(s.Value[len(s.Value)-1])
		spent[part(stack(s))] += time
		total += time
	}
	var all []Share
	for _, name := range slices.Sorted(maps.Keys(spent)) {
		all = append(all, Share{name, spent[name] / max(total, 1)})
	}
	slices.SortStableFunc(all, func(a, b Share) int { return cmp.Compare(b.Of, a.Of) })
	return all, nil
}

// stack returns the names of the functions of a sample, innermost first.
func stack(s *profile.Sample) []string {
	var names []string
	for _, location := range s.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				names = append(names, line.Function.Name)
			}
		}
	}
	return names
}

// part returns the part of a sample.
func part(stack []string) string {
	for _, r := range rules() {
		if has(stack, r.functions) {
			return r.part
		}
	}
	for _, name := range stack {
		if p := owner(name); p != "" {
			return p
		}
	}
	if has(stack, []string{"net/http.(*conn)"}) {
		return "net/http, inbound"
	}
	if has(stack, []string{"net/http.(*persistConn)", "net/http.(*Transport)", "net/http.(*Client)"}) {
		return "net/http, outbound"
	}
	return "the rest"
}

// owner returns the part of a function, or "" for one that works for its caller.
func owner(function string) string {
	if rest, ok := strings.CutPrefix(function, module); ok {
		if pkg, inner := strings.CutPrefix(rest, "/"); inner {
			return packageOf(pkg)
		}
		return "gateway"
	}
	switch {
	case strings.HasPrefix(function, "net/http.(*conn)"), strings.HasPrefix(function, "net/http.(*response)"),
		strings.HasPrefix(function, "net/http.(*chunkWriter)"), strings.HasPrefix(function, "net/http.readRequest"):
		return "net/http, inbound"
	case strings.HasPrefix(function, "net/http.(*persistConn)"), strings.HasPrefix(function, "net/http.(*Transport)"),
		strings.HasPrefix(function, "net/http.(*Client)"), strings.HasPrefix(function, "net/http.(*Request).write"),
		strings.HasPrefix(function, "net/http.ReadResponse"):
		return "net/http, outbound"
	}
	return ""
}

// packageOf returns the package of a function without its module: everything up to the
// first dot after the last slash.
func packageOf(name string) string {
	slash := strings.LastIndexByte(name, '/') + 1
	pkg, _, _ := strings.Cut(name[slash:], ".")
	return name[:slash] + pkg
}

func has(stack, beginnings []string) bool {
	return slices.ContainsFunc(stack, func(name string) bool {
		return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) })
	})
}
