// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// grantOf returns the grant of a principal in the vault.
func grantOf(t *testing.T, w *world, principal string) *vault.Grant {
	t.Helper()
	all, err := w.vault.Grants(t.Context(), principal, "tickets")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d grants, error %v, want 1", len(all), err)
	}
	return all[0]
}

// Several processes that need a token at the same moment renew it once (identity attack 26).
func TestProcessesRenewOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	signIn(t, w.closing(t, nil), "ann")
	g := grantOf(t, w, "ann")
	g.Expires, g.SignedIn = time.Now().Add(-time.Minute), time.Now().Add(-time.Hour)
	if err := w.vault.Save(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const processes = 4 // three gateways and a command
	var all sync.WaitGroup
	var ready sync.WaitGroup
	start := make(chan struct{})
	ready.Add(processes)
	for range processes {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), grant.ChildEnv)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			lines := bufio.NewScanner(out)
			_, _ = fmt.Fprintf(in, "%s\n%s\n", w.folder, w.backend.URL) // the next line tells
			lines.Scan()
			ready.Done()
			<-start
			_, _ = fmt.Fprintln(in, "go") // as above
			for lines.Scan() {
				if lines.Text() != "access-token-5" {
					t.Errorf("a process has the token %q", lines.Text())
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	ready.Wait()
	close(start)
	all.Wait()
	if w.seen().renewals != 1 || w.seen().reused != 0 {
		t.Errorf("%d renewals, %d reused, want one renewal", w.seen().renewals, w.seen().reused)
	}
}

var _ = grant.SetChildTask(renewInChild)

// renewInChild is the process of that test: many calls at once.
func renewInChild(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Scan()
	folder := lines.Text()
	lines.Scan()
	backend := lines.Text()
	v, err := openVault(folder)
	if err != nil {
		return err
	}
	s, err := newSource(grant.SourceConfig{Backend: "tickets", URL: backend + "/mcp", Vault: v, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"x"}`))
	if err != nil {
		return err
	}
	req.Principal = "ann"
	_, _ = fmt.Fprintln(out, "ready") // the parent notices
	lines.Scan()
	var all sync.WaitGroup
	errs := make([]error, 34)
	texts := make([]string, len(errs))
	for i := range errs {
		all.Go(func() {
			c, err := s.For(context.Background(), req)
			texts[i], errs[i] = bearer(c), err
		})
	}
	all.Wait()
	_, _ = fmt.Fprintln(out, strings.Join(slices.Compact(texts), " ")) // the parent notices
	return errors.Join(errs...)
}
