// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a config.
type Problem struct {
	// File is the name that was given to Parse, and Line and Column count from 1
	// in it, in lines and characters. They are zero where a Config did not come
	// from a file.
	File         string
	Line, Column int

	// Path leads to the value, such as mcpServers.github.args[0].
	Path string
	// Message says what is wrong. It never holds the value of a variable, a
	// header, a token or anything else that could be a secret.
	Message string
	// Hint says what to write instead, or is empty.
	Hint string
}

// String returns the problem as one line: file:line:col: message (hint). Where
// there is no file the path stands in its place.
func (p Problem) String() string {
	// With a place an editor can jump to; without one the path is all there is.
	where := p.Path
	if p.File != "" {
		where = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	text := p.Message
	if where != "" {
		text = where + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// Problems are all mistakes of a config, in the order of the file. It is the
// error of Parse, Load and Validate.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// orNil is p as an error: nil where there is no problem.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// sorted brings problems into the order of the file. Those of one place keep
// their order.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}
