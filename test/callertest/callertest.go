// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package callertest checks that a type which wraps an [mcp.Caller] passes on everything
// that a Caller can do.
package callertest

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Recorder is a Caller that records how it is used. The zero value is ready.
type Recorder struct {
	mu   sync.Mutex
	used []string
}

func (r *Recorder) record(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = append(r.used, fmt.Sprintf(format, args...))
}

// Used returns what was recorded since the last call.
func (r *Recorder) Used() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.used
	r.used = nil
	return used
}

// Notify records the method.
func (r *Recorder) Notify(_ context.Context, n *mcp.Notification) error {
	r.record("Notify %s", n.Method)
	return nil
}

// Start records the method, and that the answer is waited for. The answer is the
// parameters of the request.
func (r *Recorder) Start(_ context.Context, req *mcp.Request) (func() (*mcp.Result, error), error) {
	r.record("Start %s", req.Method)
	return func() (*mcp.Result, error) {
		r.record("wait %s", req.Method)
		return &mcp.Result{Object: req.Params}, nil
	}, nil
}

// Extension returns the Recorder itself.
func (r *Recorder) Extension() mcp.CallerExtension { return r }

// Pulse records the call.
func (r *Recorder) Pulse() { r.record("Pulse") }

// Pause records the call.
func (r *Recorder) Pause(on bool) { r.record("Pause %t", on) }

// Poll records the time.
func (r *Recorder) Poll(retry time.Duration) bool {
	r.record("Poll %v", retry)
	return true
}

// Receive reads the result.
func (r *Recorder) Receive(_ context.Context, res mcp.StreamedResult) (taken bool, err error) {
	r.record("Receive")
	a, ok := res.(*jsonrpc.Arriving)
	if !ok {
		return false, nil
	}
	return true, a.Flow(io.Discard)
}

// A Feature is something that a Caller can do.
type Feature struct {
	// Name is that of the method.
	Name string

	use  func(ctx context.Context, c mcp.Caller) error
	want []string // what a Recorder records
}

// Features returns everything that a Caller can do.
func Features() []Feature {
	return []Feature{
		{"Notify", useNotify, []string{"Notify notifications/message"}},
		{"Start", useStart, []string{
			"Start elicitation/create", "Start roots/list", // both before an answer is waited for, in this order
			"wait elicitation/create", "wait roots/list",
		}},
		{"Pulse", func(_ context.Context, c mcp.Caller) error { c.Extension().Pulse(); return nil }, []string{"Pulse"}},
		{"Pause", usePause, []string{"Pause true", "Pause false"}},
		{"Poll", usePoll, []string{"Poll 7s"}},
		{"Receive", useReceive, []string{"Receive"}},
	}
}

func useNotify(ctx context.Context, c mcp.Caller) error {
	n, err := mcp.NewNotification("notifications/message", []byte(`{"level":"error","data":1}`))
	if err != nil {
		return err
	}
	return c.Notify(ctx, n)
}

// useStart starts two requests before it waits for the answer to the first.
func useStart(ctx context.Context, c mcp.Caller) error {
	first, err := started(ctx, c, "elicitation/create", `{"message":"?","n":1.0}`)
	if err != nil {
		return err
	}
	second, err := started(ctx, c, "roots/list", `{"n":2.0}`)
	if err != nil {
		return err
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// started starts a request, and returns a function that waits for the answer and compares
// it.
func started(ctx context.Context, c mcp.Caller, method, params string) (func() error, error) {
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		return nil, err
	}
	wait, err := c.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return func() error {
		res, err := wait()
		if err == nil && !strings.Contains(string(res.Bytes()), params[1:len(params)-1]) {
			err = fmt.Errorf("the answer to %s is %s, want %s", method, res.Bytes(), params)
		}
		return err
	}, nil
}

func usePause(_ context.Context, c mcp.Caller) error {
	c.Extension().Pause(true)
	c.Extension().Pause(false)
	return nil
}

func usePoll(_ context.Context, c mcp.Caller) error {
	if !c.Extension().Poll(7 * time.Second) {
		return errors.New("Poll = false")
	}
	return nil
}

func useReceive(ctx context.Context, c mcp.Caller) error {
	text := `{"jsonrpc":"2.0","id":1,"result":{"filler":"` + strings.Repeat("x", 200<<10) + `"}}`
	a := jsonrpc.NewArrival(strings.NewReader(text), int64(len(text)), mcp.Limits{}, 1<<20)
	if whole, err := a.Begin(); whole != nil || err != nil {
		return errors.Join(errors.New("the result does not arrive in parts"), err)
	}
	arriving := jsonrpc.NewArriving(&a, mcp.V20251125, func() {})
	taken, err := c.Extension().Receive(ctx, arriving)
	switch {
	case !taken:
		return errors.Join(errors.New("Receive = false"), err)
	case err == nil && arriving.Result() == nil:
		return errors.New("Receive has not delivered the result")
	}
	return err
}

// Check uses every feature of a Caller behind which there is a Recorder, and fails if the
// Recorder does not see it. Features named in without must not be seen.
func Check(ctx context.Context, t testing.TB, c mcp.Caller, r *Recorder, without ...string) {
	t.Helper()
	for _, f := range Features() {
		r.Used()
		err := f.use(ctx, c)
		got, want := r.Used(), f.want
		if slices.Contains(without, f.Name) {
			want = nil
		} else if err != nil {
			t.Errorf("%s through %T: %v", f.Name, c, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s through %T: the wrapped Caller saw %q, want %q", f.Name, c, got, want)
		}
	}
}

// Wrappers returns the names of the types of the package in a folder that embed an
// mcp.Caller.
func Wrappers(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && embedsCaller(spec.Type) {
				names = append(names, spec.Name.Name)
			}
			return true
		})
	}
	slices.Sort(names)
	return names, nil
}

func embedsCaller(t ast.Expr) bool {
	s, ok := t.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		sel, ok := f.Type.(*ast.SelectorExpr)
		return ok && len(f.Names) == 0 && sel.Sel.Name == "Caller"
	})
}

// A Wrapper makes a type that embeds a Caller.
type Wrapper struct {
	// Wrap returns one around a Caller.
	Wrap func(mcp.Caller) mcp.Caller

	// Without names the features that it drops on purpose.
	Without []string
}

// CheckPackage checks all types of the tested package that embed a Caller. The table has
// them by name; a type that it lacks is an error.
func CheckPackage(t *testing.T, table map[string]Wrapper) {
	t.Helper()
	found, err := Wrappers(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if _, ok := table[name]; !ok {
			t.Errorf("type %s embeds an mcp.Caller and is not in the table", name)
		}
	}
	for name, w := range table {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(found, name) {
				t.Errorf("there is no type %s that embeds an mcp.Caller", name)
			}
			r := new(Recorder)
			Check(t.Context(), t, w.Wrap(r), r, w.Without...)
		})
	}
}
