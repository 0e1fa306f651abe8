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
	// File is the name passed to Parse. Line and Column count from 1, in lines and
	// characters. They are zero if the Config is not from a file.
	File         string
	Line, Column int

	// Path identifies the value, such as mcpServers.github.args[0].
	Path string
	// Message describes the mistake. It never contains the value of a variable, a
	// header, a token or anything else that could be a secret.
	Message string
	// Hint describes what to write instead, or is empty.
	Hint string
	// Code is the code of the problem, such as SB_FILE_TILDE, or is empty. docs/codes.md
	// lists the codes.
	Code string
}

// String returns the problem as one line: file:line:col: message (hint) [code]. Without a
// file, the path replaces the position.
func (p Problem) String() string {
	// Editors recognize file:line:col.
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
	if p.Code != "" {
		text += " [" + p.Code + "]"
	}
	return text
}

// Problems are all mistakes of a configuration, in file order. It is the error type of
// Parse, Load and Validate.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// sorted sorts the problems by position, stably.
func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}
