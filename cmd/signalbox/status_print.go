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

// printStatus prints a status for people: what is wrong cannot be overlooked,
// and what they did not ask for is not there. All of it is one write, so that
// half of it is never taken for the whole.
func (e *env) printStatus(from *url.URL, s *gatewayStatus, f *statusFlags) error {
	var b bytes.Buffer
	// Without the path, and without what somebody may have put into the rest of the URL.
	host := url.URL{Scheme: from.Scheme, Host: from.Host}
	fmt.Fprintf(&b, "signalbox %s at %s, up for %s\n", visibleLine(s.Version), host.String(), visibleLine(s.Uptime))
	if s.Draining {
		b.WriteString("draining: it takes no new sessions, and ends when the running calls have\n")
	}
	fmt.Fprintf(&b, "%s, %d in flight", plural(s.Sessions, "session"), s.InFlight)
	if mib := s.Pending >> 20; mib > 0 {
		fmt.Fprintf(&b, ", %d MiB of answers not read", mib)
	}
	b.WriteByte('\n')
	writeBackends(&b, s)
	// Always, though there are most often none: somebody looks because something is wrong.
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

// writeBackends writes a table of the backends, and below it why some are of no
// help: reasons are sentences, and would tear the table.
func writeBackends(b *bytes.Buffer, s *gatewayStatus) {
	// Said, because a gateway without any is most often one with another configuration than
	// somebody believes.
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
	_ = w.Flush() // a buffer takes everything
	for i := range s.Backends {
		if u := &s.Backends[i]; u.Reason != "" {
			fmt.Fprintf(b, "%s is %s: %s\n", visibleLine(u.Name), visibleLine(u.State), visibleLine(u.Reason))
		}
	}
}

// writeProblems writes what is not as it was meant. What is wrong with a refused
// configuration stands first, each line with its "reload refused"; what is added
// is when that was.
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
			fmt.Fprintf(b, "(%s; what was configured before goes on)\n", ago(s.now(), s.ReloadRefused.At))
		}
	}
}

// writeLimits writes the limits by their keys, in whose order and spelling they
// stand in a file.
func writeLimits(b *bytes.Buffer, limits map[string]string) {
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		// With the prefix, so that a line can be searched for in the documents.
		fmt.Fprintf(w, "limits.%s\t%s\n", visibleLine(key), visibleLine(limits[key]))
	}
	_ = w.Flush() // a buffer takes everything
}

// ago is how long something is past, in the unit that matters.
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
	// Up to two days, because "1d ago" leaves open whether that was this morning.
	case d < 2*day:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/day)
	}
}

// day is one in the sense of uptimes, which know no daylight saving.
const day = 24 * time.Hour
