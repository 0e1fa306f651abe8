// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"os"
	"strings"
)

// maxEnvFile is more than any file of variables has.
const maxEnvFile = 1 << 20

// withEnvFile adds the variables of a server's file to its Env, which counts for more.
func (r *reader) withEnvFile(s *Server, n node, p place) {
	at, ok := n.member("envFile")
	p = p.key("envFile")
	if !ok || s.EnvFile == "" || r.formOnly || r.unread.there(p) {
		return
	}
	text, problem, hint := readEnvFile(s.EnvFile)
	if problem != "" {
		r.complain(at.at, p, hint, "%q: %s", p.name, problem)
		return
	}
	vars, mistakes := parseEnv(text)
	for _, m := range mistakes {
		r.complain(at.at, p, m.hint, "%q: line %d of %s %s", p.name, m.line, s.EnvFile, m.message)
	}
	maps.Copy(vars, s.Env)
	// Beside an address the key is refused, and "env" need not be there.
	if s.URL == "" && len(vars) > 0 {
		s.Env = vars
	}
}

// readEnvFile returns what a file of variables holds, or what is wrong with it. Its
// content is in no message.
func readEnvFile(path string) (text, problem, hint string) {
	// Before it is opened: a pipe would be waited for, and a device can have effects.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", "the file cannot be read: " + err.Error(), "make it, or remove the key"
	case !info.Mode().IsRegular():
		return "", fmt.Sprintf("%s is not a regular file (mode %v)", path, info.Mode()), ""
	}
	data, err := readAtMost(path, maxEnvFile)
	switch {
	case err != nil:
		return "", "the file cannot be read: " + err.Error(), ""
	case len(data) > maxEnvFile:
		return "", fmt.Sprintf("the file %s is larger than %s", path, formatBytes(maxEnvFile)), ""
	}
	return string(data), "", ""
}

// envMistake is a line of a file of variables that cannot be read. Nothing of the line is
// shown: any of it may be a secret.
type envMistake struct {
	line          int
	message, hint string
}

// envText is what remains of a file of variables, and the line that it begins in.
type envText struct {
	rest string
	line int
}

// parseEnv reads a file of variables by the rules of the package dotenv of npm, which are
// those of the editor that has the key:
//
//	# a comment
//	NAME=value # spaces around the value do not count
//	export NAME=value
//	NAME: value
//	NAME='as it is, also over several lines'
//	NAME="the same, with \n and \r for line breaks"
//
// A backquote quotes as well. The last line of a name counts. Nothing is expanded. What that
// package passes over, and what readers of this format disagree about, is a mistake: a line
// that sets nothing, and a # inside a value without quotes.
func parseEnv(text string) (vars map[string]Secret, mistakes []envMistake) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	vars = make(map[string]Secret)
	for e := (&envText{text, 1}); e.rest != ""; {
		line := e.line
		name, value, message, hint := e.next()
		switch {
		case message != "":
			mistakes = append(mistakes, envMistake{line, message, hint})
		case name != "":
			vars[name] = NewSecret(value)
		}
	}
	return vars, mistakes
}

// skip passes over n bytes.
func (e *envText) skip(n int) {
	n = min(n, len(e.rest))
	e.line += strings.Count(e.rest[:n], "\n")
	e.rest = e.rest[n:]
}

// next reads one line, and the lines that a quoted value goes on over. A blank line and
// a comment have no name.
func (e *envText) next() (name, value, message, hint string) {
	line, _, _ := strings.Cut(e.rest, "\n")
	name, value, message = envName(line)
	switch {
	case message != "":
		hint = "write NAME=value"
	case value != "" && strings.Contains("'\"`", value[:1]):
		start := len(line) - len(value)
		var length int
		if value, length, message = envQuoted(e.rest[start:]); message == "" {
			e.skip(start + length)
			return name, value, "", ""
		}
	default:
		value, message = envPlain(value)
		hint = "put the value in quotes, or a space before the #"
	}
	e.skip(len(line) + 1)
	return name, value, message, hint
}

// envName splits a line into the name of a variable and the rest.
func envName(line string) (name, rest, message string) {
	const blanks = " \t"
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' {
		return "", "", ""
	}
	if after, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(after, blanks) != after {
		line = after
	}
	end := strings.IndexAny(line, "=:")
	// The colon is that of YAML.
	if end < 0 || line[end] == ':' && strings.TrimLeft(line[end+1:], blanks) == line[end+1:] {
		return "", "", "sets no variable"
	}
	name = strings.Trim(line[:end], blanks)
	if name == "" || !isName(name, len(name)) {
		return "", "", "sets something that is not the name of a variable"
	}
	return name, strings.TrimLeft(line[end+1:], blanks), ""
}

// envPlain returns the value that stands without quotes at the beginning of a text.
func envPlain(text string) (value, message string) {
	before, _, comment := strings.Cut(text, "#")
	value = strings.TrimSpace(before)
	if comment && before != "" && value == before {
		return "", "has a # inside a value without quotes"
	}
	return value, ""
}

// envQuoted returns the value in the quotes that a text begins with, and how many bytes it
// takes up to the end of its last line.
func envQuoted(text string) (value string, length int, message string) {
	quote := text[0]
	end := 1
	for end < len(text) && text[end] != quote {
		if text[end] == '\\' && end+1 < len(text) && text[end+1] == quote {
			end++
		}
		end++
	}
	if end >= len(text) {
		return "", 0, "opens a quote that nothing closes"
	}
	value = text[1:end]
	behind, _, _ := strings.Cut(text[end+1:], "\n")
	if after := strings.TrimSpace(behind); after != "" && after[0] != '#' {
		return "", 0, "has something behind the closing quote"
	}
	if quote == '"' {
		value = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(value)
	}
	return value, min(len(text), end+1+len(behind)+1), ""
}
