// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childVariable marks a process that a test has started: this program again. Its value is the
// name of the task.
const childVariable = "SIGNALBOX_TEST_GRANT"

func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		if err := renewInChild(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
