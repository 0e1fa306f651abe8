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

// wordFlag is a string flag that rejects the empty string. An empty value is nearly always
// an unset shell variable, and treating it as absent would select another server than
// intended.
type wordFlag struct{ to *string }

// Set sets the value.
func (f wordFlag) Set(word string) error {
	if word == "" {
		return errors.New("the value is empty; omit the flag instead")
	}
	*f.to = word
	return nil
}

// String returns the value, for the help.
func (f wordFlag) String() string {
	if f.to == nil { // pflag calls String on a zero value, to recognize the default
		return ""
	}
	return *f.to
}

// Type returns the placeholder of the value in the help.
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

// flagError returns an error of the flag parser without the names of Go functions.
func flagError(_ *cobra.Command, err error) error {
	text, _, isGo := strings.Cut(err.Error(), ": strconv.")
	if isGo && errors.Is(err, strconv.ErrSyntax) {
		return usageError{fmt.Errorf("%s: use true or false", text)}
	}
	return usageError{err}
}
