// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// readAtMost reads up to most+1 bytes of a file.
//
// A pipe can be read, because a shell can substitute one for a configuration. It is opened
// without blocking, as otherwise opening waits for a writer.
func readAtMost(path string, most int64) ([]byte, error) {
	flag := os.O_RDONLY
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		flag |= syscall.O_NONBLOCK
	}
	file, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	// One more byte shows the caller that the file is larger.
	return io.ReadAll(io.LimitReader(file, most+1))
}

// checkAppendable reports why a file cannot be appended to, as far as this is known without
// opening it, or "".
func checkAppendable(path string) (problem, hint string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Sprintf("%s is a folder", path), "write the path of a file in it"
	}
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case err != nil:
		return "the folder of the record cannot be read: " + err.Error(), "create it first"
	case !info.IsDir():
		return fmt.Sprintf("%s is not a folder", folder), ""
	}
	return "", ""
}

// maxEnvFile bounds the size of a file of variables.
const maxEnvFile = 1 << 20

// withEnvFile adds the variables of a server's envFile to its Env, which has precedence.
func (r *reader) withEnvFile(s *Backend, p place) {
	p = p.key("envFile")
	if s.EnvFile == "" || r.formOnly || r.has(p) {
		return
	}
	text, problem, hint := readEnvFile(s.EnvFile)
	if problem != "" {
		r.reject(p, hint, "%q: %s", p.name, problem)
		return
	}
	vars, mistakes := parseEnv(text)
	for _, m := range mistakes {
		r.reject(p, m.hint, "%q: line %d of %s %s", p.name, m.line, s.EnvFile, m.message)
	}
	maps.Copy(vars, s.Env)
	// With a URL the key is reported as unused, and "env" must not appear as well.
	if s.URL == "" && len(vars) > 0 {
		s.Env = vars
	}
}

// readEnvFile returns the content of a file of variables, or what is wrong with it. No
// message has any of the content.
func readEnvFile(path string) (text, problem, hint string) {
	// Checked before it is opened: opening a pipe may block, and a device may have effects.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", "the file cannot be read: " + err.Error(), "create it, or remove the key"
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

// envMistake is an invalid line of a file of variables. No part of the line is shown, as
// any of it may be a secret.
type envMistake struct {
	line          int
	message, hint string
}

// parseEnv parses a file of variables by the rules of npm's dotenv package, which are those
// of the editor that has the key envFile:
//
//	# a comment
//	NAME=value # spaces around the value do not count
//	export NAME=value
//	NAME: value
//	NAME='unchanged, also over several lines'
//	NAME="the same, with \n and \r for line breaks"
//
// Backquotes are quotes, too. The last line of a name counts. Nothing is expanded. Lines
// that dotenv ignores or that other parsers of this format treat differently are mistakes:
// a line that sets nothing, and a # inside a value without quotes.
func parseEnv(text string) (vars map[string]Secret, mistakes []envMistake) {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	vars = make(map[string]Secret)
	for line := 1; text != ""; {
		name, value, length, mistake := parseEnvLine(text)
		switch {
		case mistake.message != "":
			mistake.line = line
			mistakes = append(mistakes, mistake)
		case name != "":
			vars[name] = NewSecret(value)
		}
		line += strings.Count(text[:length], "\n")
		text = text[length:]
	}
	return vars, mistakes
}

// parseEnvLine parses the first line of text, and the further lines of a quoted value. length
// is the number of bytes that it has parsed. The name of a blank line or a comment is empty.
func parseEnvLine(text string) (name, value string, length int, m envMistake) {
	line, _, _ := strings.Cut(text, "\n")
	length = min(len(line)+1, len(text))
	name, value, m.message = splitEnvLine(line)
	switch {
	case m.message != "":
		m.hint = "write NAME=value"
	case value != "" && strings.Contains("'\"`", value[:1]):
		start := len(line) - len(value)
		unquoted, n, message := parseQuoted(text[start:])
		if message == "" {
			length = start + n
		}
		value, m.message = unquoted, message
	default:
		value, m.message = parseUnquoted(value)
		m.hint = "put the value in quotes, or a space before the #"
	}
	return name, value, length, m
}

// splitEnvLine splits a line into the name of a variable and the rest.
func splitEnvLine(line string) (name, rest, message string) {
	const blanks = " \t"
	line = strings.TrimLeft(line, blanks)
	if line == "" || line[0] == '#' {
		return "", "", ""
	}
	if after, ok := strings.CutPrefix(line, "export"); ok && strings.TrimLeft(after, blanks) != after {
		line = after
	}
	end := strings.IndexAny(line, "=:")
	// The colon must be followed by a space, as in YAML.
	if end < 0 || line[end] == ':' && strings.TrimLeft(line[end+1:], blanks) == line[end+1:] {
		return "", "", "sets no variable"
	}
	name = strings.Trim(line[:end], blanks)
	if name == "" || !isName(name, len(name)) {
		return "", "", "sets something that is not the name of a variable"
	}
	return name, strings.TrimLeft(line[end+1:], blanks), ""
}

// parseUnquoted returns the value without quotes at the beginning of text.
func parseUnquoted(text string) (value, message string) {
	before, _, comment := strings.Cut(text, "#")
	value = strings.TrimSpace(before)
	if comment && before != "" && value == before {
		return "", "has a # inside a value without quotes"
	}
	return value, ""
}

// parseQuoted returns the quoted value at the beginning of text, and the number of bytes up
// to the end of its last line.
func parseQuoted(text string) (value string, length int, message string) {
	quote := text[0]
	end := 1
	for end < len(text) && text[end] != quote {
		if text[end] == '\\' && end+1 < len(text) && text[end+1] == quote {
			end++
		}
		end++
	}
	if end >= len(text) {
		return "", 0, "has a quote that is not closed"
	}
	value = text[1:end]
	rest, _, _ := strings.Cut(text[end+1:], "\n")
	if after := strings.TrimSpace(rest); after != "" && after[0] != '#' {
		return "", 0, "has text after the closing quote"
	}
	if quote == '"' {
		value = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(value)
	}
	return value, min(len(text), end+1+len(rest)+1), ""
}
