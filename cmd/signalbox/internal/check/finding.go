// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configpath"
)

// The results of checks.
const (
	OK   = "ok"
	Warn = "warn" // it works
	Fail = "fail"
)

// Finding is the result of one check.
type Finding struct {
	Kind    string  `json:"kind"` // config, server, port, gateway, clients, state or processes
	Name    string  `json:"name"` // that of a server; otherwise the kind
	Result  string  `json:"result"`
	Code    string  `json:"code,omitzero"`
	Text    string  `json:"text"`
	Fix     string  `json:"fix,omitzero"`
	Passes  bool    `json:"passes,omitzero"` // may pass without a change
	Version string  `json:"version,omitzero"`
	Tools   int     `json:"tools,omitzero"`
	Bytes   int     `json:"bytes,omitzero"`   // of the tools' definitions
	Seconds float64 `json:"seconds,omitzero"` // until the lists were known

	Start *signalbox.ProcessStart `json:"start,omitempty"` // the part of it until the process was ready

	appTools []string // the names by which apps call tools of the server
	withheld bool     // as in a signalbox.ListProblem
	perUser  bool     // it failed, because only signed-in users get its lists

	problem config.Problem // with the place in the file, or the zero value

	Path string `json:"-"` // of the place in the file, as that of a config.Problem
}

// OfNote returns the finding for a note on the file.
func OfNote(kind, name string, note config.Problem) Finding {
	f := Finding{Kind: kind, Name: name, Result: Warn, Code: note.Code, Fix: cmp.Or(note.Hint, CodeEntry(note.Code).Cure)}
	f.Path = note.Path
	note.Code, note.Hint = "", ""
	f.Text = note.String()
	return f
}

// IsAbout reports whether a note is about a server or a part of its entry.
func IsAbout(note config.Problem, server string) bool {
	return configpath.IsIn(note.Path, configpath.Server(server))
}

// CodeEntry returns the description of a code; its fields are empty if the code is unknown.
func CodeEntry(c string) code.Entry {
	for _, entry := range code.All() {
		if entry.Code == c {
			return entry
		}
	}
	return code.Entry{}
}

// SplitCode splits a text from the code in brackets at its end.
func SplitCode(text string) (before, c string) {
	if before, c, ok := strings.Cut(text, " [SB_"); ok && strings.HasSuffix(c, "]") {
		return before, "SB_" + strings.TrimSuffix(c, "]")
	}
	return text, ""
}

// Table formats findings as a table, with each fix below its finding. Hidden characters
// are escaped, as in other tables, and the home folder is abbreviated.
func Table(e *command.Env, found []Finding) []byte {
	name, width := 0, 0
	for _, f := range found {
		name = max(name, utf8.RuneCountInString(output.VisibleLine(f.Name)))
		width = max(width, len(f.Code))
	}
	var b bytes.Buffer
	for _, f := range found {
		result := f.Result
		if result == Fail {
			result = strings.ToUpper(result)
		}
		fmt.Fprintf(&b, "%-*s  %-4s  ", name, output.VisibleLine(f.Name), result)
		if f.Code != "" {
			fmt.Fprintf(&b, "%-*s  ", width, output.VisibleLine(f.Code))
		}
		b.WriteString(output.VisibleLine(e.Tilde(f.Text)) + "\n")
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-*s        fix: %s\n", name, "", output.VisibleLine(f.Fix))
		}
	}
	return b.Bytes()
}

// NeedsAttention returns the error of a command with failed checks, or nil.
func NeedsAttention(found []Finding) error {
	var failed, passing []string
	noun := "server"
	for _, f := range found {
		if f.Result != Fail {
			continue
		}
		names := &failed
		if f.Passes {
			names = &passing
		}
		if !slices.Contains(*names, f.Name) {
			*names = append(*names, f.Name)
		}
		if f.Kind != "server" {
			noun = "check"
		}
	}
	later := fmt.Sprintf("%s failed, which may pass without a change: %s", output.Plural(len(passing), noun), strings.Join(passing, ", "))
	switch {
	case failed == nil && passing == nil:
		return nil
	case failed == nil:
		return command.Strictf("%s", later)
	}
	verb := "need"
	if len(failed) == 1 {
		verb = "needs"
	}
	text := fmt.Sprintf("%s %s attention: %s", output.Plural(len(failed), noun), verb, strings.Join(failed, ", "))
	if passing != nil {
		text += "; " + later
	}
	return errors.New(text)
}
