// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
)

// statusFlags say which gateway is asked, and what of its answer is printed.
type statusFlags struct {
	config  string   // the file whose address it is; empty for the one that is found
	url     string   // an address instead
	headers []string // each as 'Name: value'
	json    bool     // everything, as it came
	limits  bool     // which nobody wants to see who asks what is wrong
	promise bool     // which is the same each time
}

// newStatus makes the command that asks a gateway how it is. It is not one of the
// commands with a target: those may start a gateway of their own, and would tell how
// that one is.
func newStatus(e *env) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Ask a running gateway how it is",
		Long: `Ask a running gateway how it is: its backends and why one is of no help, what is
not offered as it was meant, and a configuration that it refused.

Without --url it is the gateway that serve would start here: at the address of the
configuration file, or of the demo. ` + tokenVariable + ` may hold a bearer token for it.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.status(cmd.Context(), &f) },
	}
	configFlag(cmd, &f.config)
	addWord(cmd, &f.url, "url", "ask the gateway at this `URL`; its MCP endpoint will do")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header, as `'Name: value'`; may be repeated")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole status as JSON")
	cmd.Flags().BoolVar(&f.limits, "limits", false, "print the limits in force, too")
	cmd.Flags().BoolVar(&f.promise, "promise", false, "print what becomes of sessions and calls when the process ends, too")
	return cmd
}

// status fetches and prints. With --json the text is passed on as it came and not
// judged, so that what an older command does not know is not lost.
func (e *env) status(ctx context.Context, f *statusFlags) error {
	address, err := f.address(e)
	if err != nil {
		return err
	}
	// Those of the commands with a target, so that a token is never an argument
	// here either.
	header, err := (&targetFlags{headers: f.headers}).header(e)
	if err != nil {
		return err
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	raw, err := fetchStatus(ctx, address, header)
	if err != nil {
		return fmt.Errorf("status of %s: %w", address.Host, err)
	}
	if f.json {
		return e.printJSON([]byte(strings.TrimSpace(string(raw))))
	}
	s, err := decodeStatus(raw)
	if err != nil {
		return fmt.Errorf("status of %s: %w", address.Host, err)
	}
	return e.printStatus(address, s, f)
}

// address returns where the status is to be had.
func (f *statusFlags) address(e *env) (*url.URL, error) {
	switch {
	case f.url != "" && f.config != "":
		return nil, usagef("both --url and --config; choose one")
	case f.url != "":
		return statusURL(f.url)
	}
	cfg, err := e.source(f.config).load()
	if err != nil {
		return nil, fmt.Errorf("%w\nto ask a gateway without its configuration, name it with --url", err)
	}
	listen := cfg.Effective().Listen
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen %q is no address; name the gateway with --url", listen)
	}
	if port == "0" {
		return nil, fmt.Errorf("listen %q takes another port at each start; name the gateway with --url, as it said when it began to listen", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // on all addresses, and so on this one
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: statusPath}, nil
}

// statusPath is where a gateway serves its status. It stands beside the MCP
// endpoint, whatever the path of that is.
const statusPath = "/status"

// statusURL returns the address of the status of the gateway at a URL. A path
// that ends as that of a status does is one: a proxy may serve it below its own.
func statusURL(given string) (*url.URL, error) {
	u, err := parseTarget(given)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(u.Path, statusPath) {
		u.Path = statusPath
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u, nil
}

// errNoSignalbox is returned where something answers that is no gateway.
var errNoSignalbox = errors.New("what answers there is no Signalbox, or one that does not serve its status there")

// gatewayStatus is what a gateway serves as its status.
type gatewayStatus struct {
	signalbox.Status

	Uptime string `json:"uptime"`
}

// now is the time by the gateway's clock, which need not be ours.
func (s *gatewayStatus) now() time.Time {
	// From two of its own times; that of a machine whose clock is wrong would make
	// everything old, or not have happened yet.
	up, err := time.ParseDuration(s.Uptime)
	if err != nil {
		return time.Now()
	}
	return s.Started.Add(up)
}

// decodeStatus reads what a gateway says of itself. One of a later version may
// say more.
func decodeStatus(raw []byte) (*gatewayStatus, error) {
	var s gatewayStatus
	if err := json.Unmarshal(raw, &s, jsontext.AllowInvalidUTF8(true)); err != nil || s.Started.IsZero() {
		return nil, errors.Join(errNoSignalbox, err)
	}
	return &s, nil
}

// refusedStatus says what an answer that is no status means for who asked.
func refusedStatus(resp *http.Response, body []byte) error {
	// Each of these a gateway answers for a reason of its own; the texts are ours,
	// since a program that is none would say nothing that helps.
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("it wants another token (HTTP status 401): put one that it knows into %s", tokenVariable)
	case http.StatusForbidden:
		return fmt.Errorf("it refuses this address or header (HTTP status 403): %s", firstLine(body))
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return errNoSignalbox
	}
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("it redirects to %q, which is not followed; name that with --url if it is meant", resp.Header.Get("Location"))
	}
	return fmt.Errorf("it answers with HTTP status %d: %s", resp.StatusCode, firstLine(body))
}

// refusalLength is how much of a page that was not asked for is shown.
const refusalLength = 200

// firstLine is what is shown of a page that was not asked for.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return shorten(visibleLine(line), refusalLength)
}
