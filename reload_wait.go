// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/signalbox-mcp/signalbox/config"
)

// ErrWaits is the error of a changed file that only the operator can apply.
var ErrWaits = errors.New("the change waits for the operator")

// waitsError lists the changes that wait for the operator.
type waitsError struct{ config.Problems }

// Is reports whether the target is ErrWaits.
func (w waitsError) Is(target error) bool { return target == ErrWaits }

// Unwrap returns the problems.
func (w waitsError) Unwrap() error { return w.Problems }

// checkPolicy returns the changes that the running configuration does not permit
// without the operator, or nil. The policy is that of the running configuration: a file
// cannot permit itself.
func checkPolicy(running, next *config.Config, exposed []string) error {
	const hint = "apply it with 'signalbox reload' or SIGHUP"
	wait := func(path, message string) config.Problem {
		return config.Problem{Path: path, Message: message, Hint: hint}
	}
	switch running.Reload {
	case config.ReloadAuto:
		return nil
	case config.ReloadManual:
		if sameConfig(running, next) {
			return nil
		}
		return waitsError{config.Problems{wait("", "the file has changed, and reload is set to manual")}}
	case config.ReloadGuarded:
	}
	paths := running.RunsNew(next)
	if len(exposed) == 0 || len(paths) == 0 {
		return nil
	}
	who := exposed[0]
	if more := len(exposed) - 1; more > 0 {
		who = fmt.Sprintf("%s, and %d more", who, more)
	}
	var problems config.Problems
	for _, path := range paths {
		problems = append(problems, wait(path, "new or changed, and others may have written it: "+who))
	}
	return waitsError{problems}
}

// sameConfig reports whether two configurations are equal except for their notes.
func sameConfig(a, b *config.Config) bool {
	one, two := *a, *b
	one.Notes, two.Notes = nil, nil
	return reflect.DeepEqual(one, two)
}
