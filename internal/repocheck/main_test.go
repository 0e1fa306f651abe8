// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the generated pages of docs")

// TestMain runs the tests in the root folder of the repository: rules name files below it.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// logFolder must be called before files of the repository are read. The go command reuses
// the result of tests while the files that they have opened are the same. Its log of these
// files begins after TestMain has changed the folder, so it would look for them in this one.
var logFolder = sync.OnceFunc(func() {
	if err := os.Chdir("."); err != nil {
		panic(err)
	}
})
