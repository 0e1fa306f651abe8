// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"
)

// noExitDelay makes processes with the race detector exit without a delay of a second.
const noExitDelay = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"signalbox": shallow,
		"mcpchild":  child,
		"mcpgrow":   growingChild,
		"mcproots":  rootsChild,
		"mcpmute":   muteChild,
		"mcpsecret": secretChild,
		"mcplist":   listingChild,
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
	_ = os.Setenv(configVariable, "/no-home/.config") // a valid name
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// stateVariable is the variable with the folder of gateways' sockets.
const stateVariable = "XDG_STATE_HOME"

// configVariable is the variable with the user's folder for configurations.
const configVariable = "XDG_CONFIG_HOME"

// TestScripts runs the transcripts of testdata/script. Their commands are separate processes.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Values[gatewaysKey{}] = make(map[string]*process)
			state, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(state) })
			e.Vars = append(e.Vars, noExitDelay, stateVariable+"="+state)
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
		},
	})
}

// testEnv is an env that does not use the process's environment.
type testEnv struct {
	*env
	out, err *lockedBuffer
	signals  chan os.Signal
}

func newTestEnv(t *testing.T, stdin string) *testEnv {
	t.Helper()
	e := &testEnv{out: new(lockedBuffer), err: new(lockedBuffer), signals: make(chan os.Signal, 3)}
	e.env = &env{
		Stdin:     bytes.NewBufferString(stdin),
		Stdout:    e.out,
		Stderr:    e.err,
		LookupEnv: func(string) (string, bool) { return "", false },
		Dir:       t.TempDir(),
		Signals:   func(...os.Signal) (<-chan os.Signal, func()) { return e.signals, func() {} },
		Terminal:  func(any) bool { return false },
	}
	return e
}

// execute runs a command by itself, and not below that of the program.
func (e *testEnv) execute(ctx context.Context, cmd *cobra.Command, args ...string) error {
	cmd.SetArgs(append([]string{}, args...)) // not nil, for which cobra uses os.Args
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(ctx)
}

func (e *testEnv) run(ctx context.Context, args ...string) int {
	return run(ctx, e.env, args)
}

// lockedBuffer is a buffer for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
