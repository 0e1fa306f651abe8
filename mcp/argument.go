// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
)

var errArgumentTwice = errors.New("duplicate member in the arguments")

// argument is the value at the end of a header's path. The zero value means absent.
type argument struct {
	raw []byte
	err error // errArgumentTwice, or invalid JSON
}

// findArguments finds the arguments mirrored by several headers in one pass. A
// duplicate member on the path is an error (errArgumentTwice), because the header and
// the tool may use different ones.
func findArguments(headers []ParamHeader, raw []byte) []argument {
	found := make([]argument, len(headers))
	if len(headers) == 0 || len(raw) == 0 || raw[0] != '{' {
		return found
	}
	f := finder{
		scanner: newScanner(raw, Limits{Depth: maxDepth, Members: len(raw)}),
		headers: headers,
		found:   found,
	}
	all := make([]int, len(headers))
	for i := range all {
		all[i] = i
	}
	if f.object(0, 0, all); f.err != nil {
		f.setError(all, 0, f.err)
	}
	return f.found
}

// finder walks over the objects on the paths to the mirrored arguments, and checks
// everything else. It descends as deep as the longest path.
type finder struct {
	scanner
	headers []ParamHeader
	found   []argument // one for each header
}

// object reads the object at i, inside depth objects, on the path to the arguments of
// the headers in wanted.
func (f *finder) object(i, depth int, wanted []int) int {
	ways := f.byName(wanted, depth)
	seen := make(map[string]bool, len(ways))
	for i = f.first(i); i >= 0; i = f.next(i) {
		key := i
		if i = f.key(i); i < 0 {
			return failed
		}
		name := f.keyText(key)
		inside, asked := ways[name]
		if i = f.member(i, depth, inside); i < 0 {
			return failed
		}
		if asked && seen[name] {
			f.setError(inside, depth, errArgumentTwice)
		}
		if asked {
			seen[name] = true
		}
	}
	return f.afterObject
}

// byName groups the wanted headers by the next element of their paths.
func (f *finder) byName(wanted []int, depth int) map[string][]int {
	ways := make(map[string][]int, len(wanted))
	for _, w := range wanted {
		if path := f.headers[w].Path; depth < len(path) {
			ways[path[depth]] = append(ways[path[depth]], w)
		}
	}
	return ways
}

// member reads the value of a member on the path of all headers in wanted, and records
// it for headers with a path that ends here.
func (f *finder) member(i, depth int, wanted []int) int {
	start := i
	if len(wanted) > 0 && f.at(i) == '{' {
		i = f.object(i, depth+1, wanted)
	} else {
		i = f.value(i, depth+1)
	}
	if i < 0 {
		return failed
	}
	for _, w := range wanted {
		if len(f.headers[w].Path) == depth+1 {
			f.found[w].raw = f.data[start:i:i]
		}
	}
	return i
}

// setError sets an error for all these headers, naming the current element of their
// paths.
func (f *finder) setError(wanted []int, depth int, err error) {
	for _, w := range wanted {
		if path := f.headers[w].Path; depth < len(path) {
			f.found[w] = argument{err: fmt.Errorf("argument %s: %w", quoted([]byte(path[depth])), err)}
		}
	}
}
