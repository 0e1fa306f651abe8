// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares says where the time of a program went, from a CPU profile: to which
// of a few parts that somebody can do something about.
package shares

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Share is a part of a program, and how much of its time was spent there, of 1.
type Share struct {
	Part string
	Of   float64
}

// module is that of the gateway. What stands behind it in a function's name is the
// package.
const module = "github.com/signalbox-mcp/signalbox"

// rule gives a part the samples whose stack has one of its functions.
type rule struct {
	part      string
	functions []string // beginnings of names
}

// rules are tried in their order: what the runtime does on behalf of others comes
// first, because it is theirs to avoid, and what is left belongs to whose code it is.
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

// stack is the names of the functions of a sample, from where it was taken outwards.
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

// part is whose time a sample is.
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

// owner is the part that a function belongs to, or "" where it is one that works for
// whoever calls it.
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

// packageOf is the package of a function without its module: all up to the first dot
// behind the last slash.
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
