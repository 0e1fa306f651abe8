// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
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
	if !r.formOnly && strings.HasPrefix(p.path, serversKey+".") && knownToken.MatchString(text) {
		r.note(p.as(code.FileLiteral), "write ${NAME}, and run 'signalbox secret set NAME'", "%q has a token written into the file", p.name)
	}
}

// noteArgs adds notes on arguments that are valid and seldom meant. It does not show
// them, as variables in them may be secrets.
func (r *reader) noteArgs(s *Backend) {
	p := place{}.key(serversKey).key(s.Name).key("args")
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
		r.note(at.as(code.FileUnpinned), "write the version", "%q names a package without a version, so that each start may install another one", at.name)
	}
}

// existsBesideFile reports whether a relative path exists in the folder of the file, and
// not in that of the server.
func (r *reader) existsBesideFile(value, cwd string) bool {
	// A word alone may be a subcommand that has the name of a file by chance.
	if filepath.IsAbs(value) || !strings.ContainsAny(value, `./\`) {
		return false
	}
	_, err := os.Stat(filepath.Join(cwd, value))
	_, beside := os.Stat(filepath.Join(filepath.Dir(r.file), value))
	return err != nil && beside == nil
}

// unpinned returns the index of the argument that names a package without a version for
// npx or uvx, or -1.
func unpinned(s *Backend) int {
	program := strings.TrimSuffix(strings.TrimSuffix(path.Base(filepath.ToSlash(s.Command)), ".exe"), ".cmd")
	if program != "npx" && program != "uvx" {
		return -1
	}
	for i := 0; i < len(s.Args); i++ {
		arg := s.Args[i]
		option, value, joined := strings.Cut(arg, "=")
		switch {
		case option == "-p" || option == "--package" || option == "--from":
			if joined {
				return unpinnedAt(program, value, i)
			}
			if i+1 < len(s.Args) {
				return unpinnedAt(program, s.Args[i+1], i+1)
			}
			return -1
		case option == "-c" || option == "--call":
			return -1
		case isOptionWithValue(option) && !joined:
			i++
		case strings.HasPrefix(arg, "-"):
		default:
			return unpinnedAt(program, arg, i)
		}
	}
	return -1
}

// isOptionWithValue reports whether the next argument of npx or uvx is the option's value.
func isOptionWithValue(option string) bool {
	switch option {
	case "--with", "--python", "--index-url", "--extra-index-url", "--registry", "-w", "--workspace":
		return true
	default:
		return false
	}
}

// unpinnedAt returns i if the package has no version. A package by its path or URL is not
// of a registry.
func unpinnedAt(program, name string, i int) int {
	name = strings.TrimPrefix(name, "@") // a scope
	if name == "" || strings.Contains(name, ":") || strings.HasPrefix(name, ".") || filepath.IsAbs(name) {
		return -1
	}
	_, version, _ := strings.Cut(name, "@")
	if program == "uvx" && strings.ContainsAny(name, "=<>") || version != "" && version != "latest" {
		return -1
	}
	return i
}
