// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/runner"
)

// knownToken matches the tokens of services that have a form of their own.
var knownToken = regexp.MustCompile(`(^|[^A-Za-z0-9])(` + strings.Join([]string{
	`gh[opsur]_[A-Za-z0-9]{20}`, `github_pat_\w{20}`, `glpat-[\w-]{16}`, // code hosting
	`xox[abpr]-[\w-]{10}`, `xapp-[\w-]{10}`, `ntn_\w{20}`, `lin_api_\w{20}`, // team tools
	`sk-[\w-]{20}`, `hf_\w{30}`, `AIza[\w-]{30}`, // models
	`[rs]k_live_\w{16}`, `AKIA[A-Z0-9]{16}`, `npm_\w{30}`, `pypi-[\w-]{50}`,
	`eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.`, // a JSON web token
}, "|") + `)`)

// noteLiteral adds a note on a value of a server that has a token of a known form, as it
// is written in the file. It does not show the value.
func (r *reader) noteLiteral(text string, p place) {
	if !r.formOnly && strings.HasPrefix(p.path, serversKey) && knownToken.MatchString(text) {
		r.note(p.as(code.FileLiteral), "write ${NAME}, and run 'signalbox secret set NAME'", "%q has a token written into the file", p.name)
	}
}

// noteArgs adds notes on arguments that are valid and seldom meant. It does not show
// them, as variables in them may be secrets.
func (r *reader) noteArgs(s *Backend) {
	p := s.place().key("args")
	for i, arg := range s.Args {
		at := p.item(i)
		value := arg
		if _, after, isOption := strings.Cut(arg, "="); isOption && strings.HasPrefix(arg, "-") {
			value = after
		}
		switch {
		case value == "~" || strings.HasPrefix(value, "~/"):
			r.note(at.as(code.FileTilde), "write ${HOME}", "%q begins with ~, which only a shell replaces", at.name)
		case r.existsBesideFile(value, s.Cwd):
			r.note(at.as(code.FileRelative), `write the whole path, or set "cwd"`,
				"%q is a path relative to this file, but the server runs in another folder", at.name)
		}
	}
	if i := unpinned(s); i >= 0 {
		at := p.item(i)
		r.note(at.as(code.FileUnpinned), "'signalbox pin "+s.Name+"' writes it; without, each start may install another one", "%q names a package without a version", at.name)
	}
}

// existsBesideFile reports whether a relative path exists in the folder of the file, and
// not in that of the server.
func (r *reader) existsBesideFile(value, cwd string) bool {
	// A word alone may be a subcommand that has the name of a file by chance.
	if filepath.IsAbs(value) || !strings.ContainsAny(value, `./\`) {
		return false
	}
	if _, err := os.Stat(cwd); cwd != "" && err != nil {
		return false // its folder is what is wrong
	}
	_, err := os.Stat(filepath.Join(cwd, value))
	_, beside := os.Stat(filepath.Join(filepath.Dir(r.file), value))
	return err != nil && beside == nil
}

// unpinned returns the index of the argument that names a package without a version for
// npx or uvx, or -1.
func unpinned(s *Backend) int {
	p, found := runner.Find(s.Command, s.Args)
	if !found || p.Runner != "npx" && p.Runner != "uvx" || !p.IsFloating() {
		return -1
	}
	return p.Index
}
