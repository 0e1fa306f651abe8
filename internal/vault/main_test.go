// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// childVariable has the task of a process that a test has started: this program again.
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

// children are the tasks by name. Their arguments follow the name, each after a space.
var children = map[string]func(ctx context.Context, folder *Folder, args []string) error{}

func runChild(task string) error {
	name, rest, _ := strings.Cut(task, " ")
	path, rest, _ := strings.Cut(rest, " ")
	folder, err := OpenFolder(path)
	if err != nil {
		return err
	}
	return children[name](context.Background(), folder, strings.Fields(rest))
}

// childVault returns a vault with the keys of letters.
func childVault(store Store, letters string) (*Vault, error) {
	var keys [][]byte
	for _, letter := range letters {
		keys = append(keys, secretOf(string(letter)))
	}
	return New(store, keys, slog.New(slog.DiscardHandler))
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
	c.Env = append(os.Environ(), childVariable+"="+strings.Join(append([]string{task, folder}, args...), " "))
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
