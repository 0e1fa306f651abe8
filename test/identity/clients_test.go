// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/foreign"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

// redirect is the address to which a client sends the browser back. Nothing listens there: the
// test hands the address with its parameters to the client.
const redirect = "http://127.0.0.1:1/callback"

// job is what a client has to do: sign in at a server, of which it knows the URL alone, list
// its tools, and call some of them.
type job struct {
	URL      string `json:"url"`
	Version  string `json:"version"`
	Redirect string `json:"redirect"`
	// Client is a client id that was given to the client; "" lets it register itself.
	Client string `json:"client,omitempty"`
	Calls  []call `json:"calls,omitempty"`
}

type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

// report is what a client says of its job.
type report struct {
	Version string   `json:"version"`
	Tools   []string `json:"tools"`
	Calls   []result `json:"calls"`
	Error   string   `json:"error"`

	// Opened are the addresses that the client has shown to its user.
	Opened []string `json:"-"`
}

type result struct {
	Text   string `json:"text"`
	Failed bool   `json:"failed"`
}

// sdk is a client of another project that signs in by itself.
type sdk struct {
	name     string
	versions []string
	// play plays a job with a browser.
	play func(ctx context.Context, j job, b *browser.Browser) (*report, error)
}

// sdks returns the clients that this machine can run.
func sdks(t *testing.T) []sdk {
	t.Helper()
	all := []sdk{{"go", []string{"2025-11-25", "2026-07-28"}, playGo}}
	if lacks := foreign.LacksNode(t); lacks == "" {
		node := provider.Install(t)
		all = append(all,
			sdk{"ts1", []string{"2025-11-25"}, program(node.Env, node.Bin, "clients/ts1.mjs")},
			sdk{"ts2", []string{"2025-11-25", "2026-07-28"}, program(node.Env, node.Bin, "clients/ts2.mjs")})
	} else {
		leaveOut(t, "the clients in TypeScript", lacks)
	}
	if lacks := foreign.LacksPython(t); lacks == "" {
		python := foreign.InstallPython(t, "python")
		all = append(all, sdk{"python", []string{"2025-11-25", "2026-07-28"}, program(nil, python.Bin, "python/client.py")})
	} else {
		leaveOut(t, "the client in Python", lacks)
	}
	return all
}

// leaveOut says what is not tried. In CI nothing may be left out.
func leaveOut(t *testing.T, what, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s: %s", what, why)
	}
	t.Logf("%s: left out: %s", what, why)
}

// clientLimit is when a client counts as hung.
const clientLimit = 2 * time.Minute

// program is a client that is a program. It writes a line of JSON for each address that it
// opens in the browser, and reads the address at which the browser ends; its last line is
// its report.
func program(env []string, command string, args ...string) func(context.Context, job, *browser.Browser) (*report, error) {
	return func(ctx context.Context, j job, b *browser.Browser) (*report, error) {
		text, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithTimeout(ctx, clientLimit)
		defer stop()
		cmd := exec.CommandContext(ctx, command, append(args, string(text))...)
		cmd.Env = append(os.Environ(), env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		d := &dialog{browser: b, say: func(line string) error { _, err := fmt.Fprintln(stdin, line); return err }}
		err = d.run(ctx, bufio.NewScanner(stdout))
		stdin.Close()
		if err := errors.Join(err, cmd.Wait()); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, stderr.Bytes())
		}
		if d.report.Error != "" {
			d.report.Error += "\n" + stderr.String()
		}
		return d.report, nil
	}
}

// dialog is the conversation with a client program.
type dialog struct {
	browser *browser.Browser
	say     func(line string) error
	opened  []string
	report  *report
}

// maxLine is the maximum length of a line of a client.
const maxLine = 1 << 20

func (d *dialog) run(ctx context.Context, lines *bufio.Scanner) error {
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var line struct {
			Open   string  `json:"open"`
			Report *report `json:"report"`
		}
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil:
			return fmt.Errorf("the client wrote %q", lines.Text())
		case line.Report != nil:
			d.report = line.Report
			d.report.Opened = d.opened
		default:
			d.opened = append(d.opened, line.Open)
			at, err := signIn(ctx, d.browser, line.Open)
			if err != nil {
				return err
			}
			if err := d.say(at); err != nil {
				return err
			}
		}
	}
	if d.report == nil {
		return errors.Join(lines.Err(), errors.New("the client ended without a report"))
	}
	return lines.Err()
}

// signIn signs in with the browser and returns the address at which it was sent back.
func signIn(ctx context.Context, b *browser.Browser, address string) (string, error) {
	b.Until = func(u *url.URL) bool { return strings.HasPrefix(u.String(), redirect) }
	page, err := b.SignIn(ctx, address)
	if err != nil {
		return "", err
	}
	if page.Status != 0 {
		return "", fmt.Errorf("the sign-in ends at %s: %d %s", page.URL, page.Status, page.Body)
	}
	return page.URL.String(), nil
}

// query returns the parameters of an address.
func query(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}
