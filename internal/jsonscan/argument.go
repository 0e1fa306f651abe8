// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrDuplicate is wrapped by the error about a duplicate member in the arguments.
var ErrDuplicate = errors.New("duplicate member in the arguments")

// An Argument is the value of one argument of a call, as a header mirrors it. The zero
// value is for an argument that is absent or null.
type Argument struct {
	Text    string
	Present bool
	Err     error // it has no value that a header can mirror
}

// Arguments returns the values at the given paths of members, in the order of paths. It
// reads the arguments once, however many paths there are and however deep they are. A
// duplicate member on a path is an error that wraps [ErrDuplicate], because a header and
// the tool may use different ones.
func Arguments(paths [][]string, raw []byte) []Argument {
	found := findValues(paths, raw)
	values := make([]Argument, len(paths))
	for i, path := range paths {
		values[i] = found[i].argument(path)
	}
	return values
}

func (v foundValue) argument(path []string) Argument {
	if v.err != nil || v.raw == nil || string(v.raw) == "null" {
		return Argument{Err: v.err}
	}
	text, ok := mirrored(v.raw)
	if !ok {
		name := Quoted([]byte(strings.Join(path, ".")))
		return Argument{Err: fmt.Errorf("argument %s is %s, which a header cannot mirror", name, KindOf(v.raw))}
	}
	return Argument{Text: text, Present: true}
}

// mirrored returns a scanned value as a header value. It depends on the value and not
// on the type in the schema: validating arguments is up to the tool.
func mirrored(token []byte) (string, bool) {
	switch token[0] {
	case '"':
		return DecodeText(token)
	case 't', 'f':
		return string(token), true
	case '{', '[':
		return "", false
	default:
		return SafeInteger(token)
	}
}

// foundValue is the value at the end of a path. The zero value means absent.
type foundValue struct {
	raw []byte
	err error // ErrDuplicate, or invalid JSON
}

// findValues finds the values at the ends of paths in one pass.
func findValues(paths [][]string, raw []byte) []foundValue {
	found := make([]foundValue, len(paths))
	if len(paths) == 0 || len(raw) == 0 || raw[0] != '{' {
		return found
	}
	f := finder{
		Scanner: NewScanner(raw, Limits{Depth: MaxDepth, Members: len(raw)}),
		paths:   paths,
		found:   found,
	}
	all := make([]int, len(paths))
	for i := range all {
		all[i] = i
	}
	if f.object(0, 0, all); f.Err != nil {
		f.setError(all, 0, f.Err)
	}
	return f.found
}

// finder walks over the objects on the paths, and checks everything else. It descends
// as deep as the longest path.
type finder struct {
	Scanner
	paths [][]string
	found []foundValue // one for each path
}

// object reads the object at i, inside depth objects, on the way to the ends of the
// paths in wanted.
func (f *finder) object(i, depth int, wanted []int) int {
	ways := f.byName(wanted, depth)
	seen := make(map[string]bool, len(ways))
	for i = f.First(i); i >= 0; i = f.Next(i) {
		key := i
		if i = f.Key(i); i < 0 {
			return Failed
		}
		name := f.KeyText(key)
		inside, asked := ways[name]
		if i = f.member(i, depth, inside); i < 0 {
			return Failed
		}
		if asked && seen[name] {
			f.setError(inside, depth, ErrDuplicate)
		}
		if asked {
			seen[name] = true
		}
	}
	return f.AfterObject
}

// byName groups the wanted paths by their next element.
func (f *finder) byName(wanted []int, depth int) map[string][]int {
	ways := make(map[string][]int, len(wanted))
	for _, w := range wanted {
		if path := f.paths[w]; depth < len(path) {
			ways[path[depth]] = append(ways[path[depth]], w)
		}
	}
	return ways
}

// member reads the value of a member on all paths in wanted, and records it for those
// that end here.
func (f *finder) member(i, depth int, wanted []int) int {
	start := i
	if len(wanted) > 0 && f.At(i) == '{' {
		i = f.object(i, depth+1, wanted)
	} else {
		i = f.Value(i, depth+1)
	}
	if i < 0 {
		return Failed
	}
	for _, w := range wanted {
		if len(f.paths[w]) == depth+1 {
			f.found[w].raw = f.Data[start:i:i]
		}
	}
	return i
}

// setError sets an error for all these paths, naming their current element.
func (f *finder) setError(wanted []int, depth int, err error) {
	for _, w := range wanted {
		if path := f.paths[w]; depth < len(path) {
			f.found[w] = foundValue{err: fmt.Errorf("argument %s: %w", Quoted([]byte(path[depth])), err)}
		}
	}
}
