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
	"go.uber.org/goleak"
)

// noExitDelay has processes under the race detector end at once and not a second
// later.
const noExitDelay = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"signalbox": shallow,
		"mcpchild":  child,
		"mcpgrow":   growingChild,
		"mcproots":  rootsChild,
		"mcpmute":   muteChild,
	})
}

// shallow is the command, but that it does not start itself within itself for
// ever: that the command sees to it by itself is tested, and a test that fails
// must not take the machine with it. PATH is what every process of a backend
// inherits, whatever becomes of the command's own marks.
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

// leakChecked is goleak.VerifyTestMain in the form that testscript takes.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	// The tests wait for processes more than they compute: more of them run at a
	// time than there are processors, unless the command line says otherwise.
	flag.Parse()
	// Fuzzing computes and waits for nothing.
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	if f := flag.Lookup("test.parallel"); !fuzzing && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("16") // it is a number
	}
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// stateVariable says where sockets of gateways are.
const stateVariable = "XDG_STATE_HOME"

// TestScripts runs the transcripts of testdata/script. The commands in them are
// processes of their own.
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
			return os.Chmod(e.WorkDir, 0o700) // whatever the mask of this process
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

// testEnv is a world without a process around it.
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

func (e *testEnv) run(ctx context.Context, args ...string) int {
	return run(ctx, e.env, args)
}

// lockedBuffer is a buffer that several goroutines write.
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
