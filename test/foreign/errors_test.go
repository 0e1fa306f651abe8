// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"slices"
	"testing"
)

// recorder is a test that goes on after an error, and keeps what is printed.
type recorder struct {
	testing.TB

	printed  []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(a ...any)   { r.printed = append(r.printed, fmt.Sprint(a...)) }
func (r *recorder) Fatal(a ...any)   { r.Error(a...) }

func (r *recorder) Logf(format string, a ...any)   { r.Error(fmt.Sprintf(format, a...)) }
func (r *recorder) Errorf(format string, a ...any) { r.Logf(format, a...) }
func (r *recorder) Fatalf(format string, a ...any) { r.Logf(format, a...) }

func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func TestRepeatErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		run  func(testing.TB)
		want []string
	}{
		"none": {func(t testing.TB) { t.Logf("a log") }, []string{"a log", "the output"}},
		"some": {func(t testing.TB) {
			t.Error("one", 1)
			t.Logf("a log")
			t.Errorf("%d", 2)
			t.Fatal("three")
			t.Fatalf("%s", "four")
		}, []string{"one1", "a log", "2", "three", "four", "the output", "the errors again:\none 1\n2\nthree\nfour"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := new(recorder)
			again := RepeatErrors(r)
			again.Cleanup(func() { r.Logf("the output") })
			tt.run(again)
			r.end()
			if !slices.Equal(r.printed, tt.want) {
				t.Errorf("got %q, want %q", r.printed, tt.want)
			}
		})
	}
}
