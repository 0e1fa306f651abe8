// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// wordFlag is a string flag that refuses the empty word. Such a word is nearly
// always a shell variable that is not set, and taking it for "flag not given"
// would send a call to another server than the one that was meant.
type wordFlag struct{ to *string }

// Set is called for a flag that is given.
func (f wordFlag) Set(word string) error {
	if word == "" {
		return errors.New("it is empty; leave the flag out if none is meant")
	}
	*f.to = word
	return nil
}

// String returns the word, for the help.
func (f wordFlag) String() string {
	if f.to == nil { // pflag asks a zero value, to learn what no default looks like
		return ""
	}
	return *f.to
}

// Type is what the help calls the word where the usage names nothing better.
func (f wordFlag) Type() string { return "string" }

// addWord adds a wordFlag to a command.
func addWord(cmd *cobra.Command, to *string, name, usage string) {
	cmd.Flags().Var(wordFlag{to}, name, usage)
}

// configFlag adds the flag that names the configuration file.
func configFlag(cmd *cobra.Command, path *string) {
	addWord(cmd, path, "config", "configuration `FILE` (default: "+configNames+", else a demo)")
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		panic(err) //nolint:forbidigo // the flag was added in the line above
	}
}

// flagError is what the command line's parser says, in the words of the rest:
// the names of Go functions that read numbers and truth values are no news to
// whoever typed the flag.
func flagError(_ *cobra.Command, err error) error {
	said, _, isGo := strings.Cut(err.Error(), ": strconv.")
	if isGo && errors.Is(err, strconv.ErrSyntax) {
		return usageError{fmt.Errorf("%s: it is neither true nor false", said)}
	}
	return usageError{err}
}
