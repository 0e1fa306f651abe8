// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
)

type statusFlags struct {
	config  string   // the file with the address; empty means the one that is found
	url     string   // the address of a gateway
	headers []string // each as 'Name: value'
	json    bool     // print everything, unmodified
	limits  bool     // print the limits
	promise bool     // print Status.Promise
	profile string   // print only what is about this profile; empty means everything
	watch   bool     // print again and again

	interval time.Duration // of watch
}

// newStatus returns the command that prints the state of a running gateway. It has no
// targetFlags, which may start a new gateway: its state would be of no use.
func newStatus(e *env) *cobra.Command {
	f := statusFlags{interval: watchInterval}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running gateway",
		Long: `Show the state of a running gateway: its backends, why one is not available, what is
not offered as configured, and why a reload was refused. The code at the end of a
reason, such as [SB_NET_DNS], is the same in the log and in the errors of calls;
docs/codes.md has its cause and cure.

Without --url, the running gateway of this user that serves the configuration file is
asked, whatever its address is and even if the file has a mistake now. If there is none,
the address of the file is asked, or that of the demo. ` + tokenVariable + ` may hold a
bearer token for an address.

OFFERS is the number of items that clients get from a backend, and LISTS the number that
the backend lists. Where the two differ for a kind of items, its column has both, as 3/5.`,
		Args: argsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return e.status(cmd.Context(), &f) },
	}
	configFlag(cmd, &f.config)
	addWord(cmd, &f.url, "url", "", "ask the gateway at this `URL`, such as that of its MCP endpoint")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header, as `'Name: value'`; may be repeated")
	profileFlag(cmd, &f.profile, "print only the backends of a `PROFILE`, and what is wrong with it")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole status as JSON")
	cmd.Flags().BoolVar(&f.limits, "limits", false, "also print the limits in effect")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "print the status every second, until interrupted; needs a terminal")
	cmd.Flags().BoolVar(&f.promise, "promise", false, "also print what happens to sessions and calls when the process ends")
	return cmd
}

// status fetches and prints the status. With --json the text is printed unchecked, so that
// members which are unknown to this version are kept.
func (e *env) status(ctx context.Context, f *statusFlags) error {
	switch {
	case f.json && f.profile != "":
		return usagef("both --json and --profile; choose one")
	case f.watch && f.json:
		return usagef("both --watch and --json; choose one")
	case f.watch && !e.Terminal(e.Stdout):
		return usagef("--watch needs a terminal as standard output")
	}
	ctx, done := e.interruptible(ctx)
	defer done()
	fetched, err := f.fetch(ctx, e)
	if err != nil {
		return err
	}
	if f.json {
		return e.printJSON([]byte(strings.TrimSpace(string(fetched.raw))))
	}
	text, err := fetched.text(f)
	if err != nil {
		return err
	}
	if f.watch {
		return e.watchStatus(ctx, f, text)
	}
	// Written once, so that a part is never taken for the whole.
	_, err = e.Stdout.Write(text)
	return err
}

// text formats the status for a person.
func (s *fetchedStatus) text(f *statusFlags) ([]byte, error) {
	decoded, err := decodeStatus(s.raw)
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", s.name, err)
	}
	if err := narrow(&decoded.Status, f.profile); err != nil {
		return nil, err
	}
	return statusText(s.place, decoded, f), nil
}

// fetchedStatus is a status as it was received.
type fetchedStatus struct {
	name  string // of the gateway, for errors
	place string // "at" its URL, or "of" its process
	raw   []byte
}

// fetch returns the status of the gateway that the flags select.
func (f *statusFlags) fetch(ctx context.Context, e *env) (*fetchedStatus, error) {
	// Headers are meant for an address.
	if src := e.source(f.config); f.url == "" && len(f.headers) == 0 && src.hasFile() {
		if s, err := e.localStatus(ctx, src.path); s != nil || err != nil {
			return s, err
		}
	}
	address, err := f.address(e)
	if err != nil {
		return nil, err
	}
	// As for the other commands, the token is never an argument.
	header, err := e.header(f.headers)
	if err != nil {
		return nil, err
	}
	raw, err := fetchStatus(ctx, address, header)
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", address.Host, err)
	}
	return &fetchedStatus{address.Host, "at " + origin(address), raw}, nil
}

// origin returns a URL without path, credentials and query, which may hold secrets.
func origin(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// localStatus returns the status of the running gateway of this user that serves a file, or nil
// if there is none. It needs no token and not the content of the file.
func (e *env) localStatus(ctx context.Context, file string) (*fetchedStatus, error) {
	found, err := e.runningGateways(ctx, file)
	if len(found) == 0 {
		return nil, err
	}
	defer closeIdle(found)
	gateway := found[0]
	name := fmt.Sprintf("process %d", gateway.Process)
	if own := programVersion(); gateway.Version != "" && gateway.Version != own {
		e.printError(oldGateway(strconv.Itoa(gateway.Process), gateway.Version, own, gateway.Background))
	}
	place := "of " + name
	if u, err := url.Parse(gateway.URL); err == nil && u.Host != "" {
		place = "at " + origin(u)
	}
	resp, err := get(ctx, gateway.socket, socketURL(statusPath), nil)
	if err == nil && resp.code != http.StatusOK {
		err = statusError(resp)
	}
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", name, err)
	}
	if more := len(found) - 1; more > 0 {
		e.printError(fmt.Sprintf("%s of %s running; showing %s", plural(more, "more gateway"), file, name))
	}
	return &fetchedStatus{name, place, resp.body}, nil
}

func (f *statusFlags) address(e *env) (*url.URL, error) {
	switch {
	case f.url != "" && f.config != "":
		return nil, usagef("both --url and --config; choose one")
	case f.url != "":
		return statusURL(f.url)
	}
	cfg, err := e.source(f.config).load()
	if err != nil {
		return nil, fmt.Errorf("%w\nno running gateway of this user serves the file\nto ask a gateway without its configuration file, use --url", err)
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

func statusError(resp *response) error {
	// A gateway uses each of these codes for one reason. The texts are fixed, since another
	// program's would not help.
	switch resp.code {
	case http.StatusUnauthorized:
		return fmt.Errorf("the token is missing or not accepted (HTTP status 401): put a valid one into %s", tokenVariable)
	case http.StatusForbidden:
		return fmt.Errorf("the gateway refuses this address or header (HTTP status 403): %s", firstLine(resp.body))
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return errNoSignalbox
	}
	if resp.code/100 == 3 {
		return fmt.Errorf("the server redirects to %q, which is not followed; if that is the gateway, name it with --url", resp.header.Get("Location"))
	}
	return fmt.Errorf("the server responded with HTTP status %d: %s", resp.code, firstLine(resp.body))
}

// excerptLength is how much of an unexpected page is shown.
const excerptLength = 200

// firstLine returns the part of an unexpected page that is shown.
func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return shorten(visibleLine(line), excerptLength)
}

const (
	// statusTimeout bounds a request for a status. A gateway responds at once, without
	// waiting for anything.
	statusTimeout = 10 * time.Second

	// maxStatus bounds the size of a status: some thousand backends need less.
	maxStatus = 16 << 20
)

func fetchStatus(ctx context.Context, address *url.URL, header http.Header) ([]byte, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := get(ctx, transport, address.String(), header)
	switch {
	case err != nil:
		return nil, explainDial(err)
	case len(resp.body) > maxStatus:
		return nil, errNoSignalbox
	case resp.code != http.StatusOK:
		return nil, statusError(resp)
	}
	if media, _, err := mime.ParseMediaType(resp.header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, errNoSignalbox
	}
	return resp.body, nil
}

// response is an HTTP response with its body, up to maxStatus+1 bytes.
type response struct {
	code   int
	header http.Header
	body   []byte
}

// roundTrip makes a request without a body. It uses a Transport and not a Client: following a
// redirect would send the token elsewhere.
func roundTrip(ctx context.Context, transport *http.Transport, method, address string, header http.Header) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	return &response{resp.StatusCode, resp.Header, body}, err
}

// get is roundTrip for a GET that is answered at once.
func get(ctx context.Context, transport *http.Transport, address string, header http.Header) (*response, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errStatusLate)
	defer cancel()
	resp, err := roundTrip(ctx, transport, http.MethodGet, address, header)
	// When the context ends, the transport's error varies; the cause is what matters.
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

var errStatusLate = fmt.Errorf("no response within %v; check that it is a gateway and that it is running", statusTimeout)

// explainDial returns the error of connecting to an address, with what to do about it.
func explainDial(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the host name %q is unknown", dns.Name)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("nothing listens there; start a gateway with 'signalbox serve', or name the right one with --url")
	}
	return err
}

// statusText formats a status as text: problems always, and limits and promise on request.
func statusText(place string, s *gatewayStatus, f *statusFlags) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "signalbox %s %s, up for %s\n", visibleLine(s.Version), visibleLine(place), visibleLine(s.Uptime))
	if s.Draining {
		b.WriteString("draining: new sessions are rejected, and the gateway exits when the running calls have ended\n")
	}
	fmt.Fprintf(&b, "%s, %d in flight", plural(s.Sessions, "session"), s.InFlight)
	if mib := s.Pending >> 20; mib > 0 {
		fmt.Fprintf(&b, ", %d MiB of responses not yet read", mib)
	}
	b.WriteByte('\n')
	writeBackends(&b, s)
	writeProcesses(&b, s)
	if costs := profileLine(costsOf(s.Profiles)); costs != "" {
		b.WriteString(visibleLine(costs) + "\n")
	}
	// Always printed: a problem is the usual reason to look.
	writeProblems(&b, s)
	if f.limits {
		writeLimits(&b, s.Limits)
	}
	if f.promise {
		fmt.Fprintf(&b, "\n%s\n", visibleLine(s.Promise))
	}
	return b.Bytes()
}

// writeBackends writes a table of the backends, and below it the reasons of those that are
// not live: sentences would not fit into the table.
func writeBackends(b *bytes.Buffer, s *gatewayStatus) {
	// Printed, because a gateway without backends most often has another configuration than
	// expected.
	if len(s.Backends) == 0 {
		b.WriteString("\nno backends\n")
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BACKEND\tSTATE\tSPEAKS\tOFFERS\tLISTS\tTOOLS\t≈TOKENS\tRESOURCES\tTEMPLATES\tPROMPTS\tLISTED")
	for i := range s.Backends {
		u := &s.Backends[i]
		offered, listed := &u.Offered, u.Listed()
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", visibleLine(u.Name), visibleLine(u.State), cmp.Or(visibleLine(string(u.Version)), "-"),
			offered.Total(), listed.Total(), countOf(offered.Tools, listed.Tools), sizeOf(u.ToolBytes), countOf(offered.Resources, listed.Resources),
			countOf(offered.Templates, listed.Templates), countOf(offered.Prompts, listed.Prompts), ago(s.now(), u.Since))
	}
	_ = w.Flush() // a Buffer returns no error
	for i := range s.Backends {
		if u := &s.Backends[i]; u.Reason != "" {
			fmt.Fprintf(b, "%s is %s: %s%s\n", visibleLine(u.Name), visibleLine(u.State), visibleLine(u.Reason), codeSuffix(u.Code))
		}
	}
}

// countOf formats how many of the listed items are offered.
func countOf(offered, listed int) string {
	if offered == listed {
		return strconv.Itoa(listed)
	}
	return fmt.Sprintf("%d/%d", offered, listed)
}

// codeSuffix formats the code at the end of a reason.
func codeSuffix(code string) string {
	if code == "" {
		return ""
	}
	return " [" + visibleLine(code) + "]"
}

// writeProblems writes the problems. Those of a refused configuration come first, each
// beginning with "reload refused"; a line after them has the time.
func writeProblems(b *bytes.Buffer, s *gatewayStatus) {
	if len(s.Problems) == 0 {
		return
	}
	refused := 0
	if s.ReloadRefused != nil {
		refused = len(s.ReloadRefused.Problems)
	}
	b.WriteByte('\n')
	for i, p := range s.Problems {
		b.WriteString(visibleLine(p) + "\n")
		if i == refused-1 {
			fmt.Fprintf(b, "(%s; the previous configuration stays in effect)\n", ago(s.now(), s.ReloadRefused.At))
		}
	}
}

// writeLimits writes the limits, sorted by their keys.
func writeLimits(b *bytes.Buffer, limits map[string]string) {
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		// With the prefix, so that a line can be found in the documentation.
		fmt.Fprintf(w, "limits.%s\t%s\n", visibleLine(key), visibleLine(limits[key]))
	}
	_ = w.Flush() // a Buffer returns no error
}

// ago formats the time from then to now in one unit.
func ago(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case then.IsZero():
		return "never"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	// Up to two days, because "1d ago" could mean this morning.
	case d < 2*day:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/day)
	}
}

// day ignores daylight saving, as uptimes do.
const day = 24 * time.Hour
