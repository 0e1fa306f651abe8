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
// The program is that of the variable BROWSER, or the one of the system. It may outlive this
// process. If it fails before ctx ends, that is printed, with a cure.
func openBrowser(ctx context.Context, e *command.Env, address, cure string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("the address of the sign-in is not an http or https URL, and is not opened")
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
		// Ends with the browser, or this process.
		go func() {
			if err := cmd.Wait(); err != nil && ctx.Err() == nil {
				e.PrintError(fmt.Sprintf("the browser has failed: %s: %v; %s", program, err, cure))
			}
		}()
		return nil
	}
	return errors.Join(errs...)
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
