// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/internal/imports"
)

// openBrowser starts a browser with an address, which is one argument of it: no shell reads it.
// The program is that of the variable BROWSER, or the one of the system. failed receives the
// error of a browser that ends with one; the browser may outlive this process.
func openBrowser(ctx context.Context, e *command.Env, address string) (failed <-chan error, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("the address of the sign-in is not an http or https URL, and is not opened")
	}
	var errs []error
	for _, words := range browsers(e) {
		program, err := exec.LookPath(words[0])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// Not with ctx: the browser is the user's, and stays.
		cmd := exec.CommandContext(context.WithoutCancel(ctx), program, withAddress(words[1:], address)...) //nolint:gosec // the user's own program
		leaveGroup(cmd)
		if err := cmd.Start(); err != nil {
			errs = append(errs, err)
			continue
		}
		ended := make(chan error, 1)
		// Ends with the browser, or this process.
		go func() {
			if err := cmd.Wait(); err != nil {
				ended <- fmt.Errorf("%s: %w", program, err)
			}
		}()
		return ended, nil
	}
	return nil, errors.Join(errs...)
}

// browsers returns the command lines to try.
func browsers(e *command.Env) [][]string {
	if list, _ := e.LookupEnv("BROWSER"); strings.TrimSpace(list) != "" {
		return named(list)
	}
	switch runtime.GOOS {
	case "windows":
		return [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	case "darwin":
		return [][]string{{"open"}}
	default:
		return [][]string{{"xdg-open"}}
	}
}

// named returns the command lines of BROWSER: a program, or several in the order of preference,
// each with its arguments. One of them may be %s, for the address.
func named(list string) (lines [][]string) {
	if _, err := exec.LookPath(list); err == nil { // it may have blanks
		return [][]string{{list}}
	}
	for line := range strings.SplitSeq(list, string(os.PathListSeparator)) {
		if words, err := imports.Words(line); err == nil && len(words) > 0 {
			lines = append(lines, words)
		}
	}
	return lines
}

// withAddress returns arguments with the address in the place of %s, or at their end.
func withAddress(args []string, address string) []string {
	out := make([]string, 0, len(args)+1)
	isPlaced := false
	for _, arg := range args {
		isPlaced = isPlaced || strings.Contains(arg, "%s")
		out = append(out, strings.ReplaceAll(arg, "%s", address))
	}
	if !isPlaced {
		out = append(out, address)
	}
	return out
}
