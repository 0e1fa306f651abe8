// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childVariable marks a process that a test has started to be a gateway: this program again.
const childVariable = "SIGNALBOX_TEST_GRANT"

// ChildEnv is the variable of a process for ChildTask.
const ChildEnv = childVariable + "=1"

// childTask is what such a process does.
var childTask func(in io.Reader, out io.Writer) error

// SetChildTask sets it. It is called by a variable of the external tests.
func SetChildTask(task func(in io.Reader, out io.Writer) error) bool {
	childTask = task
	return true
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := childTask(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if file := os.Getenv(outputEnv); file != "" {
		os.Exit(helperMain(file))
	}
	goleak.VerifyTestMain(m)
}
