// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status has the command status.
package status

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/cost"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/profiles"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/source"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/target"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/version"
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

// New returns the command that prints the state of a running gateway. It has no
// target.Flags, which may start a new gateway: its state would be of no use.
func New(e *command.Env) *cobra.Command {
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
the address of the file is asked, or that of the demo. ` + target.TokenVariable + ` may hold a
bearer token for an address.

OFFERS is the number of items that clients get from a backend, and LISTS the number that
the backend lists. Where the two differ for a kind of items, its column has both, as 3/5.`,
		Args: command.ArgsBetween(0, 0, "none"),
		RunE: func(cmd *cobra.Command, _ []string) error { return status(cmd.Context(), e, &f) },
	}
	source.Flag(cmd, &f.config)
	command.AddWord(cmd, &f.url, "url", "", "ask the gateway at this `URL`, such as that of its MCP endpoint")
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "send a header, as `'Name: value'`; may be repeated")
	profiles.Flag(cmd, &f.profile, "print only the backends of a `PROFILE`, and what is wrong with it")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the whole status as JSON")
	cmd.Flags().BoolVar(&f.limits, "limits", false, "also print the limits in effect")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "print the status every second, until interrupted; needs a terminal")
	cmd.Flags().BoolVar(&f.promise, "promise", false, "also print what happens to sessions and calls when the process ends")
	return cmd
}

// status fetches and prints the status. With --json the text is printed unchecked, so that
// members which are unknown to this version are kept.
func status(ctx context.Context, e *command.Env, f *statusFlags) error {
	switch {
	case f.json && f.profile != "":
		return command.Usagef("both --json and --profile; choose one")
	case f.watch && f.json:
		return command.Usagef("both --watch and --json; choose one")
	case f.watch && !e.Terminal(e.Stdout):
		return command.Usagef("--watch needs a terminal as standard output")
	}
	if kind, _ := e.LookupEnv("TERM"); f.watch && kind == "dumb" {
		return command.Usagef("--watch needs a terminal that can move its cursor, and TERM is dumb")
	}
	ctx, done := e.Interruptible(ctx)
	defer done()
	fetched, err := f.fetch(ctx, e)
	if err != nil {
		return err
	}
	if f.json {
		return e.PrintJSON([]byte(strings.TrimSpace(string(fetched.raw))))
	}
	text, err := fetched.text(f)
	if err != nil {
		return err
	}
	if f.watch {
		return watchStatus(ctx, e, f, text)
	}
	// Written once, so that a part is never taken for the whole.
	_, err = e.Stdout.Write(text)
	return err
}

// text formats the status for a person.
func (s *fetchedStatus) text(f *statusFlags) ([]byte, error) {
	decoded, err := control.DecodeStatus(s.raw)
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", s.name, err)
	}
	if err := profiles.Narrow(&decoded.Status, f.profile); err != nil {
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
func (f *statusFlags) fetch(ctx context.Context, e *command.Env) (*fetchedStatus, error) {
	// Headers are meant for an address.
	if src := source.Find(e, f.config); f.url == "" && len(f.headers) == 0 && src.HasFile() {
		if s, err := localStatus(ctx, e, src.Path); s != nil || err != nil {
			return s, err
		}
	}
	address, err := f.address(e)
	if err != nil {
		return nil, err
	}
	// As for the other commands, the token is never an argument.
	header, err := target.Header(e, f.headers)
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
// without one. It needs no token and not the content of the file.
func localStatus(ctx context.Context, e *command.Env, file string) (*fetchedStatus, error) {
	found, err := control.Running(ctx, e, file)
	if len(found) == 0 {
		return nil, err
	}
	defer control.CloseIdle(found)
	gateway := found[0]
	name := fmt.Sprintf("process %d", gateway.Process)
	if own := version.Program(); gateway.Version != "" && gateway.Version != own {
		e.PrintError(control.OldGateway(strconv.Itoa(gateway.Process), gateway.Version, own, gateway.Background))
	}
	place := "of " + name
	if u, err := url.Parse(gateway.URL); err == nil && u.Host != "" {
		place = "at " + origin(u)
	}
	resp, err := control.Get(ctx, gateway.Socket, control.URL(control.StatusPath), nil)
	if err == nil && resp.Code != http.StatusOK {
		err = statusError(resp)
	}
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", name, err)
	}
	if more := len(found) - 1; more > 0 {
		e.PrintError(fmt.Sprintf("%s of %s running; showing %s", output.Plural(more, "more gateway"), file, name))
	}
	return &fetchedStatus{name, place, resp.Body}, nil
}

func (f *statusFlags) address(e *command.Env) (*url.URL, error) {
	switch {
	case f.url != "" && f.config != "":
		return nil, command.Usagef("both --url and --config; choose one")
	case f.url != "":
		return statusURL(f.url)
	}
	cfg, err := source.Find(e, f.config).Load()
	if err != nil {
		return nil, fmt.Errorf("%w\nno running gateway of this user serves the file\nto ask a gateway without its configuration file, use --url", err)
	}
	u, err := source.Origin(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; name the gateway with --url", err)
	}
	if u.Port() == "0" {
		return nil, fmt.Errorf("listen %q means another port at each start; name the gateway with --url, as printed after 'listening on'", cfg.Listen)
	}
	u.Path = control.StatusPath
	return u, nil
}

// statusURL returns the URL of the status of the gateway at a URL. A path that ends in
// control.StatusPath is kept: a proxy may serve the status below a prefix.
func statusURL(given string) (*url.URL, error) {
	u, err := target.ParseURL(given)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(u.Path, control.StatusPath) {
		u.Path = control.StatusPath
	}
	u.RawPath, u.RawQuery, u.Fragment = "", "", ""
	return u, nil
}

func statusError(resp *control.Response) error {
	// A gateway uses each of these codes for one reason. The texts are fixed, since another
	// program's would not help.
	switch resp.Code {
	case http.StatusUnauthorized:
		return fmt.Errorf("the token is missing or not accepted (HTTP status 401): put a valid one into %s", target.TokenVariable)
	case http.StatusForbidden:
		return fmt.Errorf("the gateway refuses this address or header (HTTP status 403): %s", output.FirstLine(resp.Body))
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return control.ErrNoSignalbox
	}
	if resp.Code/100 == 3 {
		return fmt.Errorf("the server redirects to %q, which is not followed; if that is the gateway, name it with --url", resp.Header.Get("Location"))
	}
	return fmt.Errorf("the server responded with HTTP status %d: %s", resp.Code, output.FirstLine(resp.Body))
}

func fetchStatus(ctx context.Context, address *url.URL, header http.Header) ([]byte, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := control.Get(ctx, transport, address.String(), header)
	switch {
	case err != nil:
		return nil, control.ExplainDial(err)
	case len(resp.Body) > control.MaxStatus:
		return nil, control.ErrNoSignalbox
	case resp.Code != http.StatusOK:
		return nil, statusError(resp)
	}
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, control.ErrNoSignalbox
	}
	return resp.Body, nil
}

// statusText formats a status as text: problems always, and limits and promise on request.
func statusText(place string, s *control.Status, f *statusFlags) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "signalbox %s %s, up for %s\n", output.VisibleLine(s.Version), output.VisibleLine(place), output.VisibleLine(s.Uptime))
	if s.Draining {
		b.WriteString("draining: new sessions are rejected, and the gateway exits when the running calls have ended\n")
	}
	fmt.Fprintf(&b, "%s, %d in flight", output.Plural(s.Sessions, "session"), s.InFlight)
	if mib := s.Pending >> 20; mib > 0 {
		fmt.Fprintf(&b, ", %d MiB of responses not yet read", mib)
	}
	b.WriteByte('\n')
	if r := s.Results; r != nil {
		fmt.Fprintf(&b, "%s of tools cut, %d kept with %d KiB, %d dropped for lack of room\n", output.Plural(int(r.Cut), "result"), r.Kept, (r.Bytes+1023)>>10, r.Evicted)
		if r.Whole > 0 {
			fmt.Fprintf(&b, "results of %s are not cut, because of output schemas (results.structured)\n", output.Plural(r.Whole, "tool"))
		}
	}
	writeBackends(&b, s)
	writeProcesses(&b, s)
	if costs := cost.ProfileLine(cost.ProfileCosts(s.Profiles, s.Backends)); costs != "" {
		b.WriteString(output.VisibleLine(costs) + "\n")
	}
	// Always printed: a problem is the usual reason to look.
	writeProblems(&b, s)
	writeAdvice(&b, s)
	if f.limits {
		writeLimits(&b, s.Limits)
	}
	if f.promise {
		fmt.Fprintf(&b, "\n%s\n", output.VisibleLine(s.Promise))
	}
	return b.Bytes()
}

// writeBackends writes a table of the backends, and below it the reasons of those that are
// not live: sentences would not fit into the table.
func writeBackends(b *bytes.Buffer, s *control.Status) {
	// Printed, because a gateway without backends most often has another configuration than
	// expected.
	if len(s.Backends) == 0 {
		b.WriteString("\nno backends\n")
		return
	}
	b.WriteByte('\n')
	hasSkills := slices.ContainsFunc(s.Backends, func(u signalbox.BackendStatus) bool { return u.Skills > 0 })
	header := []string{"BACKEND", "STATE", "SPEAKS", "OFFERS", "LISTS", "TOOLS", "≈TOKENS", "RESOURCES", "TEMPLATES", "PROMPTS"}
	if hasSkills {
		header = append(header, "SKILLS")
	}
	rows := [][]string{append(header, "LISTED")}
	for i := range s.Backends {
		u := &s.Backends[i]
		offered, listed := &u.Offered, u.Listed()
		row := []string{
			u.Name, u.State, cmp.Or(string(u.Version), "-"), strconv.Itoa(offered.Total()), strconv.Itoa(listed.Total()),
			countOf(offered.Tools, listed.Tools), cost.SizeOf(u.ToolBytes).String(), countOf(offered.Resources, listed.Resources),
			countOf(offered.Templates, listed.Templates), countOf(offered.Prompts, listed.Prompts),
		}
		if hasSkills {
			row = append(row, countOf(offered.Skills, listed.Skills))
		}
		rows = append(rows, append(row, output.Ago(s.Now(), u.Since)))
	}
	output.WriteColumns(b, rows)
	for i := range s.Backends {
		u := &s.Backends[i]
		if u.Reason != "" {
			fmt.Fprintf(b, "%s is %s: %s%s\n", output.VisibleLine(u.Name), output.VisibleLine(u.State), output.VisibleLine(u.Reason), output.CodeSuffix(u.Code))
		}
		if u.Users != nil {
			fmt.Fprintf(b, "%s has lists for each user that is signed in: %s\n", output.VisibleLine(u.Name), control.UserLists(u.Users))
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

// writeProblems writes the problems. Those of a refused configuration come first, each
// beginning with "reload refused"; a line after them has the time.
func writeProblems(b *bytes.Buffer, s *control.Status) {
	if len(s.Problems) == 0 {
		return
	}
	refused := 0
	if s.ReloadRefused != nil {
		refused = len(s.ReloadRefused.Problems)
	}
	b.WriteByte('\n')
	for i, p := range s.Problems {
		b.WriteString(output.VisibleLine(p) + "\n")
		if i == refused-1 {
			fmt.Fprintf(b, "(%s; the previous configuration stays in effect)\n", output.Ago(s.Now(), s.ReloadRefused.At))
		}
	}
}

// writeAdvice writes what a person should look at. It follows the problems, and is no problem.
func writeAdvice(b *bytes.Buffer, s *control.Status) {
	for i := range s.Backends {
		if u := &s.Backends[i]; u.Advice != "" {
			fmt.Fprintf(b, "\n%s: %s\n", output.VisibleLine(u.Name), output.VisibleLine(u.Advice))
		}
	}
}

// writeLimits writes the limits, sorted by their keys.
func writeLimits(b *bytes.Buffer, limits map[string]string) {
	b.WriteByte('\n')
	var rows [][]string
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		// With the prefix, so that a line can be found in the documentation.
		rows = append(rows, []string{"limits." + key, limits[key]})
	}
	output.WriteColumns(b, rows)
}
