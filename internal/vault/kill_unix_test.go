// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package vault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// half is a step that the product does not have: a part of the new record was written.
const half = "half written"

// save LETTERS NUMBER STEP: changes the grant, and is killed at a step. NUMBER is how
// often the step comes before.
var _ = addChild("save", func(ctx context.Context, folder *Folder, args []string) error {
	v, g, err := childGrant(ctx, folder, args[0])
	if err != nil {
		return err
	}
	folder.step = killAt(folder, args[1], args[2])
	g.RefreshToken = mcp.NewToken("refresh-2")
	return v.Save(ctx, g)
})

// delete LETTERS NUMBER STEP: deletes the grant, and is killed at a step.
var _ = addChild("delete", func(ctx context.Context, folder *Folder, args []string) error {
	v, g, err := childGrant(ctx, folder, args[0])
	if err != nil {
		return err
	}
	folder.step = killAt(folder, args[1], args[2])
	return v.Delete(ctx, g)
})

// churn: changes the grant without end, and writes the number of each change that was
// saved.
var _ = addChild("churn", func(ctx context.Context, folder *Folder, _ []string) error {
	v, g, err := childGrant(ctx, folder, "a")
	if err != nil {
		return err
	}
	for i := number(g); ; i++ {
		g.RefreshToken = mcp.NewToken(strings.Repeat("x", 2000) + " " + strconv.Itoa(i+1))
		if err := v.Save(ctx, g); err != nil {
			return err
		}
		fmt.Println(i + 1)
	}
})

// hold: locks the grant, reports it, and waits.
var _ = addChild("hold", func(ctx context.Context, folder *Folder, _ []string) error {
	v, err := childVault(folder, "a")
	if err != nil {
		return err
	}
	lock, err := v.Lock(ctx, &Grant{GrantKey: aliceKey})
	if err != nil {
		return err
	}
	defer lock.Unlock()
	// Without a goroutine that may run, the runtime ends the process as deadlocked.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	fmt.Println("locked")
	<-ctx.Done()
	return nil
})

// number returns the number at the end of a refresh token.
func number(g *Grant) int {
	n, _ := strconv.Atoi(g.RefreshToken.Reveal()[strings.LastIndexByte(g.RefreshToken.Reveal(), ' ')+1:])
	return n
}

// killAt returns a step function that kills the process.
func killAt(folder *Folder, after, at string) func(string) {
	left, _ := strconv.Atoi(after)
	return func(step string) {
		if step == "created" && at == half {
			files, _ := filepath.Glob(filepath.Join(folder.path, "*"+newSuffix))
			_ = os.WriteFile(files[0], []byte(header+"17"), 0o600)
			step = half
		}
		if step != at {
			return
		}
		if left--; left < 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

func wasKilled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// steps returns the steps of f, each with how often it came before.
func steps(t *testing.T, folder *Folder, f func()) (all [][2]string) {
	t.Helper()
	seen := make(map[string]int)
	folder.step = func(step string) {
		all = append(all, [2]string{strconv.Itoa(seen[step]), step})
		seen[step]++
	}
	f()
	folder.step = func(string) {}
	return all
}

// A process is killed at each step of a save that also replaces the key. The record is the
// old or the new one, and the next save leaves nothing of the killed one behind.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0")
	old, _ := newVault(t, path, "a")
	mustSave(t, old, aliceGrant())
	v, _ := newVault(t, path, "b", "a")
	all := steps(t, v.store.(*Folder), func() {
		g := &Grant{GrantKey: aliceKey}
		if err := errors.Join(v.Load(t.Context(), g), v.Save(t.Context(), g)); err != nil {
			t.Fatal(err)
		}
	})
	renamed := slices.Index(all, [2]string{"0", "renamed"})
	if renamed < 0 || len(all) < 8 {
		t.Fatalf("the steps are %v", all)
	}
	all = append(all, [2]string{"0", half})
	for i, step := range all {
		t.Run(step[1]+step[0], func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "credentials")
			old, _ := newVault(t, path, "a")
			mustSave(t, old, aliceGrant())
			killed := start(t, "save", path, "ba", step[0], step[1])
			if _, err := killed.rest(); !wasKilled(err) {
				t.Fatalf("not killed: %v %s", err, &killed.err)
			}
			isNew := i >= renamed && step[1] != half
			checkAfterKill(t, path, isNew)
		})
	}
}

// checkAfterKill checks that a killed process has left the old or the new record, which can
// be changed.
func checkAfterKill(t *testing.T, path string, isNew bool) {
	t.Helper()
	v, log := newVault(t, path, "b", "a")
	g := &Grant{GrantKey: aliceKey}
	if err := v.Load(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	want := map[bool]string{true: "refresh-2", false: "refresh-1"}[isNew]
	if got := g.RefreshToken.Reveal(); got != want {
		t.Errorf("the refresh token is %s, want %s", got, want)
	}
	c, err := v.List(t.Context())
	if err != nil || len(c.Grants) != 1 || len(c.Unopened) != 0 || c.Grants[0].RefreshToken.Reveal() != want {
		t.Errorf("the contents are %+v, %v", c, err)
	}
	g.RefreshToken = mcp.NewToken("refresh-3")
	mustSave(t, v, g)
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(files) != 3 { // the record, and a lock for each key
		t.Errorf("the files are %v, %v", files, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

// A process is killed while it deletes a record that is there with two keys. The older one
// does not appear again.
func TestKilledDelete(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"0", "1"} {
		path := filepath.Join(t.TempDir(), "credentials")
		old, _ := newVault(t, path, "a")
		mustSave(t, old, aliceGrant())
		for _, task := range [][]string{{"save", "0", "folder synced"}, {"delete", number, "deleted"}} {
			killed := start(t, task[0], path, "ba", task[1], task[2])
			if _, err := killed.rest(); !wasKilled(err) {
				t.Fatalf("not killed: %v %s", err, &killed.err)
			}
		}
		v, _ := newVault(t, path, "b", "a")
		g := &Grant{GrantKey: aliceKey}
		switch err := v.Load(t.Context(), g); {
		case number == "0" && (err != nil || g.RefreshToken.Reveal() != "refresh-2"):
			t.Errorf("killed after the older was deleted: %v %s", err, g.RefreshToken.Reveal())
		case number == "1" && !errors.Is(err, ErrNotFound):
			t.Errorf("killed after both were deleted: %v", err)
		}
	}
}

// A process is killed at any time. What it has reported as saved is there (identity
// requirement I12).
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	runs := 1000
	if testing.Short() {
		runs = 8
	}
	path := filepath.Join(t.TempDir(), "credentials")
	v, log := newVault(t, path, "a")
	g := aliceGrant()
	g.RefreshToken = mcp.NewToken("x 0")
	mustSave(t, v, g)
	reported := 0
	for range runs {
		killed := start(t, "churn", path)
		if line := killed.line(); line == "" {
			t.Fatalf("it saved nothing: %s", &killed.err)
		}
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(5*time.Millisecond))), func() { _ = killed.Process.Kill() })
		lines, err := killed.rest()
		timer.Stop()
		if !wasKilled(err) {
			t.Fatalf("not killed: %v %s", err, &killed.err)
		}
		if len(lines) > 0 {
			reported, _ = strconv.Atoi(lines[len(lines)-1])
		}
		if err := v.Load(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		// The last one may be saved and not reported.
		if n := number(g); n < reported || n > reported+1 && len(lines) > 0 {
			t.Fatalf("saved %d, but %d were reported", n, reported)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

// The lock of a process that was killed is free, and that of one that lives is not.
func TestLockOfKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	v, _ := newVault(t, path, "a")
	holder := start(t, "hold", path)
	if line := holder.line(); line != "locked" {
		t.Fatalf("got %q %s", line, &holder.err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := v.Save(ctx, aliceGrant())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process has the lock "+path) {
		t.Errorf("saved while it is locked: %v", err)
	}
	other := aliceGrant()
	other.Principal = "corp:bob"
	mustSave(t, v, other) // each record has its own lock
	waits := make(chan error, 1)
	go func() { waits <- v.Save(t.Context(), aliceGrant()) }() // ends when the process is killed
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = holder.rest()
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
