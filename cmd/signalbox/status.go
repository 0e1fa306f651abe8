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

// statusFlags are the flags of status.
type statusFlags struct {
	config  string   // the file with the address; empty means the one that is found
	url     string   // the address of a gateway
	headers []string // each as 'Name: value'
	json    bool     // print everything, unmodified
	limits  bool     // print the limits
	promise bool     // print Status.Promise
}

// newStatus returns the command that prints the state of a running gateway. It has no
// targetFlags, which may start a new gateway: its state would be of no use.
func newStatus(e *env) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running gateway",
		Long: `Show the state of a running gateway: its backends, why one is not available, what is
not offered as configured, and why a reload was refused.

Without --url, the gateway that serve would start here is asked, at the address of the
configuration file or of the demo. ` + tokenVariable + ` may hold a bearer token for it.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.status(cmd.Context(), &f) },
	}
	configFlag(cmd, &f.config)
	addWord(cmd, &f.url, "url", "ask the gateway at this `URL`, such as that of its MCP endpoint")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header, as `'Name: value'`; may be repeated")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole status as JSON")
	cmd.Flags().BoolVar(&f.limits, "limits", false, "also print the limits in effect")
	cmd.Flags().BoolVar(&f.promise, "promise", false, "also print what happens to sessions and calls when the process ends")
	return cmd
}

// status fetches and prints the status. With --json the text is printed unchecked, so that
// members which are unknown to this version are kept.
func (e *env) status(ctx context.Context, f *statusFlags) error {
	address, err := f.address(e)
	if err != nil {
		return err
	}
	// As for the other commands, the token is never an argument.
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

// address returns the URL of the status.
func (f *statusFlags) address(e *env) (*url.URL, error) {
	switch {
	case f.url != "" && f.config != "":
		return nil, usagef("both --url and --config; choose one")
	case f.url != "":
		return statusURL(f.url)
	}
	cfg, err := e.source(f.config).load()
	if err != nil {
		return nil, fmt.Errorf("%w\nto ask a gateway without its configuration file, use --url", err)
	}
	listen := cfg.Effective().Listen
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("listen %q is not an address; name the gateway with --url", listen)
	}
	if port == "0" {
		return nil, fmt.Errorf("listen %q means another port at each start; name the gateway with --url, as printed after 'listening on'", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a listener on all addresses includes loopback
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: statusPath}, nil
}

// statusPath is the path of a gateway's status, independent of that of the MCP endpoint.
const statusPath = "/status"

// statusURL returns the URL of the status of the gateway at a URL. A path that ends in
// statusPath is kept: a proxy may serve the status below a prefix.
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

// errNoSignalbox is returned if another kind of server responds.
var errNoSignalbox = errors.New("the server there is not Signalbox, or does not serve its status at this address")

// gatewayStatus is the JSON of a gateway's status.
type gatewayStatus struct {
	signalbox.Status

	Uptime string `json:"uptime"`
}

// now returns the current time of the gateway's clock, which may differ from the local one.
func (s *gatewayStatus) now() time.Time {
	// Computed from two of its own times: with another machine's wrong clock everything
	// would appear old, or in the future.
	up, err := time.ParseDuration(s.Uptime)
	if err != nil {
		return time.Now()
	}
	return s.Started.Add(up)
}

// decodeStatus decodes a status. One of a later version may have more members.
func decodeStatus(raw []byte) (*gatewayStatus, error) {
	var s gatewayStatus
	if err := json.Unmarshal(raw, &s, jsontext.AllowInvalidUTF8(true)); err != nil || s.Started.IsZero() {
		return nil, errors.Join(errNoSignalbox, err)
	}
	return &s, nil
}

// statusError returns the error for a response that is not a status.
func statusError(resp *http.Response, body []byte) error {
	// A gateway uses each of these codes for one reason. The texts are fixed, since another
	// program's would not help.
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fmt.Errorf("the token is missing or not accepted (HTTP status 401): put a valid one into %s", tokenVariable)
	case http.StatusForbidden:
		return fmt.Errorf("the gateway refuses this address or header (HTTP status 403): %s", firstLine(body))
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return errNoSignalbox
	}
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("the server redirects to %q, which is not followed; if that is the gateway, name it with --url", resp.Header.Get("Location"))
	}
	return fmt.Errorf("the server responded with HTTP status %d: %s", resp.StatusCode, firstLine(body))
}

// excerptLength is how much of an unexpected page is shown.
const excerptLength = 200

// firstLine returns the part of an unexpected page that is shown.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return shorten(visibleLine(line), excerptLength)
}
