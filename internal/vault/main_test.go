// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// childVariable has the name of the task of a process that a test has started: this program
// again. The folder and the arguments are the lines of its standard input.
const childVariable = "SIGNALBOX_TEST_VAULT"

func TestMain(m *testing.M) {
	if task := os.Getenv(childVariable); task != "" {
		if err := runChild(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// children are the tasks by name.
var children = make(map[string]childTask)

// A childTask is the task of a process.
type childTask func(ctx context.Context, folder *Folder, args []string) error

// addChild adds a task. It is called by variables of the files with the tests.
func addChild(name string, task childTask) childTask {
	children[name] = task
	return task
}

func runChild(task string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	lines := strings.Split(string(input), "\n")
	folder, err := OpenFolder(lines[0])
	if err != nil {
		return err
	}
	return children[task](context.Background(), folder, lines[1:])
}

// childVault returns a vault with the keys of letters.
func childVault(store Store, letters string) (*Vault, error) {
	return New(store, keysOf(strings.Split(letters, "")...), slog.New(slog.DiscardHandler))
}

// childGrant returns the vault of a child process, and the grant in it.
func childGrant(ctx context.Context, store Store, letters string) (*Vault, *Grant, error) {
	v, err := childVault(store, letters)
	if err != nil {
		return nil, nil, err
	}
	g := &Grant{GrantKey: aliceKey}
	return v, g, v.Load(ctx, g)
}

// child is a process of a test.
type child struct {
	*exec.Cmd
	out *bufio.Reader
	err strings.Builder
}

// start starts a process with a task. It is killed at the end of the test.
func start(t *testing.T, task, folder string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.CommandContext(t.Context(), self)}
	c.Env = append(os.Environ(), childVariable+"="+task)
	c.Stdin = strings.NewReader(strings.Join(append([]string{folder}, args...), "\n"))
	c.Stderr = &c.err
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// line returns the next line of the process, or "" at its end.
func (c *child) line() string {
	line, _ := c.out.ReadString('\n')
	return strings.TrimSuffix(line, "\n")
}

// rest reads the output to its end, and waits for the process.
func (c *child) rest() (lines []string, err error) {
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return lines, c.Wait()
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}
