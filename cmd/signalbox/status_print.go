// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"
)

// printStatus prints a status as text: problems always, and limits and promise on request.
// It writes once, so that a part is never taken for the whole.
func (e *env) printStatus(from *url.URL, s *gatewayStatus, f *statusFlags) error {
	var b bytes.Buffer
	// Without path, credentials and query, which may hold secrets.
	host := url.URL{Scheme: from.Scheme, Host: from.Host}
	fmt.Fprintf(&b, "signalbox %s at %s, up for %s\n", visibleLine(s.Version), host.String(), visibleLine(s.Uptime))
	if s.Draining {
		b.WriteString("draining: new sessions are rejected, and the gateway exits when the running calls have ended\n")
	}
	fmt.Fprintf(&b, "%s, %d in flight", plural(s.Sessions, "session"), s.InFlight)
	if mib := s.Pending >> 20; mib > 0 {
		fmt.Fprintf(&b, ", %d MiB of responses not yet read", mib)
	}
	b.WriteByte('\n')
	writeBackends(&b, s)
	// Always printed: a problem is the usual reason to look.
	writeProblems(&b, s)
	if f.limits {
		writeLimits(&b, s.Limits)
	}
	if f.promise {
		fmt.Fprintf(&b, "\n%s\n", visibleLine(s.Promise))
	}
	_, err := e.Stdout.Write(b.Bytes())
	return err
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
	fmt.Fprintln(w, "BACKEND\tSTATE\tSPEAKS\tTOOLS\tRESOURCES\tTEMPLATES\tPROMPTS\tLISTED")
	for i := range s.Backends {
		u := &s.Backends[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", visibleLine(u.Name), visibleLine(u.State), cmp.Or(visibleLine(string(u.Version)), "-"),
			u.Tools, u.Resources, u.Templates, u.Prompts, ago(s.now(), u.Since))
	}
	_ = w.Flush() // a Buffer returns no error
	for i := range s.Backends {
		if u := &s.Backends[i]; u.Reason != "" {
			fmt.Fprintf(b, "%s is %s: %s\n", visibleLine(u.Name), visibleLine(u.State), visibleLine(u.Reason))
		}
	}
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
