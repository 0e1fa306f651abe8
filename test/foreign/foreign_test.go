// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestDrain(t *testing.T) {
	var out strings.Builder
	out.WriteString("starting\nlistening on http://one\nlistening on http://two\n")
	for i := range 2 * maxLog {
		fmt.Fprintf(&out, "line %d\n", i)
	}
	address := make(chan string, 1)
	last := drain(strings.NewReader(out.String()), "listening on ", address)
	if got := <-address; got != "http://one" {
		t.Errorf("got %q, want the first address", got)
	}
	if got, more := <-address; more {
		t.Errorf("got %q as well", got)
	}
	if len(last) != maxLog || last[maxLog-1] != fmt.Sprintf("line %d", 2*maxLog-1) {
		t.Errorf("got %d lines, the last of them %q", len(last), last[len(last)-1])
	}
}

// drain reads all output, also after a line that is too long: the process would block
// in its write otherwise.
func TestDrainReadsOn(t *testing.T) {
	in := strings.NewReader("one\n" + strings.Repeat("x", 1<<20) + "\nmore\n")
	drain(in, "", make(chan string, 1))
	if left := in.Len(); left != 0 {
		t.Errorf("%d bytes were left unread", left)
	}
}

func TestLockBreaches(t *testing.T) {
	lock := `{"packages":{"":{},"good":{"integrity":"sha512-x"},"bare":{},"placed":{"integrity":"sha512-y","resolved":"https://host/"}}}`
	want := []string{"bare has no hash", "placed contains the address https://host/"}
	if got := lockBreaches([]byte(lock)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := lockBreaches([]byte("[")); len(got) != 1 {
		t.Errorf("an invalid lock file: got %q", got)
	}
}

// A server ends with its test, at the end of its input.
func TestStart(t *testing.T) {
	var p *Process
	mark := filepath.Join(t.TempDir(), "ended")
	t.Run("while it runs", func(t *testing.T) {
		p = Start(t, "sh", "-c", `echo warming up >&2; echo listening on http://here; cat; echo done >"$0"`, mark)
		if p.URL != "http://here" {
			t.Errorf("got %q", p.URL)
		}
	})
	<-p.Done
	if p.Err != nil || !slices.Equal(p.Log, []string{"warming up", "listening on http://here"}) {
		t.Errorf("it ended with %v and output %q", p.Err, p.Log)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it did not end by itself: %v", err)
	}
}

// StartAt waits for a server that does not print its address.
func TestStartAt(t *testing.T) {
	l := listen(t) // in place of the listener of the process
	defer l.Close()
	p := StartAt(t, l.Addr().String(), "sleep", "60")
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done
	if p.Err == nil {
		t.Error("a signal ended the process, and Err is nil")
	}
}

func TestOutput(t *testing.T) {
	stdout, stderr, err := Output(t.Context(), []byte("in"), []string{"GREETING=hello"}, "sh", "-c", `cat; echo "$GREETING" >&2; exit 3`)
	if string(stdout) != "in" || string(stderr) != "hello\n" || err == nil {
		t.Errorf("got %q, %q and %v", stdout, stderr, err)
	}
}

func TestTooOld(t *testing.T) {
	for npm, want := range map[string]string{
		"11.19.1": "", "7.0.0": "",
		"6.14.18": "npm 6.14.18 is too old", "": "npm  is too old", "next": "npm next is too old",
	} {
		if got := tooOld(npm); got != want {
			t.Errorf("%q: got %q, want %q", npm, got, want)
		}
	}
}

func TestRustTooOld(t *testing.T) {
	for cargo, want := range map[string]string{
		"cargo 1.95.0 (f2d3ce0bd 2026-03-21)": "", "cargo 1.85.0": "", "cargo 2.0.0": "",
		"cargo 1.84.1": "cargo 1.84.1 is too old", "cargo 1.x.1": "cargo 1.x.1 is too old",
	} {
		if got := rustTooOld(cargo); got != want {
			t.Errorf("%q: got %q, want %q", cargo, got, want)
		}
	}
}

func TestJavaTooOld(t *testing.T) {
	for javac, want := range map[string]string{
		"javac 17.0.15": "", "javac 21": "", "javac 11.0.2": "javac 11.0.2 is too old", "javac 1.8.0_292": "javac 1.8.0_292 is too old",
		"": " has no version",
	} {
		if got := javaTooOld(javac); got != want {
			t.Errorf("%q: got %q, want %q", javac, got, want)
		}
	}
}

// PATH contains no programs.
func TestLacks(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got, want := LacksNode(t), "npm is missing or fails"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LacksPython(t), "python3 is missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LacksRust(t), "cargo is missing or fails"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LacksJava(t), "mvn is missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
