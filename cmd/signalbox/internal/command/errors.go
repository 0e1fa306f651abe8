// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import "fmt"

// UsageError is an error of the command line, for which nothing was started.
type UsageError struct{ error }

// Unwrap returns the cause, for errors.Is.
func (e UsageError) Unwrap() error { return e.error }

// StrictError is the error, with --strict, of a command that has succeeded without some of
// the backends.
type StrictError struct{ error }

// Strictf is fmt.Errorf for the error of a command that has succeeded without some of the
// backends.
func Strictf(format string, args ...any) error {
	return StrictError{fmt.Errorf(format, args...)}
}

// Usagef is fmt.Errorf for an error of the command line.
func Usagef(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}
