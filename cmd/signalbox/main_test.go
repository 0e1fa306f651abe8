// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"signalbox": shallow,
		"mcpchild":  child,
		"mcpgrow":   growingChild,
		"mcproots":  rootsChild,
		"mcpmute":   muteChild,
		"mcpsecret": secretChild,
		"mcplist":   listingChild,

		"mcpbrowser": browser,
	})
}

// shallow limits how deeply the command can start itself: the command's own protection is
// tested, and a failing test must not overload the machine. It uses PATH, which every backend
// process inherits.
func shallow() {
	const level, deepest = string(os.PathListSeparator) + "signalbox-in-signalbox", 4
	path := os.Getenv("PATH") + level
	if strings.Count(path, level) > deepest {
		_, _ = os.Stderr.WriteString("the command starts itself without end\n")
		os.Exit(9)
	}
	if err := os.Setenv("PATH", path); err != nil {
		panic(err)
	}
	main()
}

// leakChecked is goleak.VerifyTestMain in the form required by testscript.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	// The tests mostly wait for processes: run more of them at a time than there are CPUs,
	// unless the command line specifies the number.
	flag.Parse()
	// Fuzzing only computes.
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	if f := flag.Lookup("test.parallel"); !fuzzing && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("16") // a valid number
	}
	// No test finds the file of the user that runs it.
	_ = os.Setenv(commandtest.ConfigVariable, "/no-home/.config") // a valid name
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// TestScripts runs the transcripts of testdata/script. Their commands are separate processes.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[gatewaysKey{}] = make(map[string]*process)
			e.Values[signInKey{}] = make(map[string]*commandtest.SignInServer)
			state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(state) })
			e.Defer(func() { checkTokens(e, state) })
			e.Vars = append(e.Vars, commandtest.NoExitDelay, commandtest.StateVariable+"="+state)
			return os.Chmod(e.WorkDir, 0o700) // independent of the umask
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start":  scriptStart,
			"expect": scriptExpect,
			"signal": scriptSignal,
			"finish": scriptFinish,
			"exits":  scriptExits,
			"get":    scriptGet,
			"until":  scriptUntil,
			"signin": scriptSignIn,
			"talk":   scriptTalk,
		},
	})
}

func runCommand(ctx context.Context, e *commandtest.Env, args ...string) int {
	return run(ctx, e.Env, args)
}
