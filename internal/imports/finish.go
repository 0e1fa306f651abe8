// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/glob"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// finishProgram translates the values of a server that is a program. It returns why that is
// impossible, or "".
func (e *entry) finishProgram() string {
	if e.Command == "" {
		own := slices.ContainsFunc(e.Env, func(p Pair) bool { return p.Value != "${"+p.Name+"}" })
		if len(e.Args) > 0 || own || e.Cwd != "" || e.EnvFile != "" {
			e.note(e.line, "the settings of a program are not imported: the server has an address")
		}
		e.Args, e.Env, e.Cwd, e.EnvFile = nil, nil, "", ""
		return ""
	}
	e.Type = ""
	if len(e.Headers) > 0 {
		e.note(e.line, "headers are not imported: the server is a program")
		e.Headers = nil
	}
	e.splitCommand()
	e.splitArgs()
	var ok bool
	if e.Command, ok = e.replace(e.home(e.Command), "the command"); !ok {
		return "its command has a ${ without an end"
	}
	for i := range e.Args {
		at := fmt.Sprintf("argument %d", i+1)
		if e.Args[i], ok = e.replace(e.home(e.Args[i]), at); !ok {
			return at + " has a ${ without an end"
		}
		flag, value, _ := strings.Cut(e.Args[i], "=")
		if isPlaceholder(e.Args[i], false) || isPlaceholder(value, redact.IsSecretName(flag)) || template.MatchString(e.Args[i]) {
			e.placeholder(at, `write the real value, and remove "disabled"`)
		}
	}
	e.Args = slices.DeleteFunc(e.Args, func(arg string) bool { return strings.ContainsRune(arg, 0) })
	e.Env = e.finishPairs(e.Env, "env", func(name string) string {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return "it cannot be the name of a variable"
		}
		return ""
	})
	return e.finishFolder()
}

// splitCommand splits a command that is a whole line. A path may have blanks in it.
func (e *entry) splitCommand() {
	words := strings.Fields(e.Command)
	if len(words) < 2 || strings.ContainsAny(words[0], `/\`) {
		return
	}
	if quoted, err := Words(e.Command); err == nil && !strings.Contains(e.Command, `\`) {
		words = quoted
	}
	e.note(e.line, "the command is a whole line, and is split into a program and %d arguments", len(words)-1)
	e.Command, e.Args = words[0], append(words[1:], e.Args...)
}

// optionWithWords matches an option with its value, or an option and the name of a package, in
// one argument. No program means that: an argument is not split again.
var optionWithWords = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9-]*( +[^\s"'{}\\=]*[^\s"'{}\\=:])+$`)

// splitArgs splits arguments that are several words.
func (e *entry) splitArgs() {
	var args []string
	for i, arg := range e.Args {
		if !optionWithWords.MatchString(arg) {
			args = append(args, arg)
			continue
		}
		words := strings.Fields(arg)
		e.note(e.line, "argument %d is several words, and is split into %d arguments", i+1, len(words))
		args = append(args, words...)
	}
	e.Args = args
}

// finishFolder translates the working directory, and the paths that are relative to it.
func (e *entry) finishFolder() string {
	var ok bool
	if e.Cwd, ok = e.replace(e.home(e.Cwd), "the working directory"); !ok {
		return "its working directory has a ${ without an end"
	}
	if e.EnvFile, ok = e.replace(e.home(e.EnvFile), "envFile"); !ok {
		return "its envFile has a ${ without an end"
	}
	if e.EnvFile != "" {
		e.EnvFile = e.inProject(e.EnvFile)
		if e.src.Exists == nil || !e.src.Exists(e.EnvFile) {
			e.note(e.line, `"envFile" is not imported: there is no such file (write the variables in "env")`)
			e.EnvFile = ""
		}
	}
	switch relative := e.relative(); {
	case e.Cwd != "" && e.project == "" && !isAbsolute(e.Cwd):
		e.note(e.line, `"cwd" is not imported: it is relative to a folder that is not known (add it with the whole path)`)
		e.Cwd = ""
	case e.Cwd != "":
		e.Cwd = e.inProject(e.Cwd)
	case relative == "":
	case e.project == "":
		e.note(e.line, "%s is relative to a folder that is not known (add \"cwd\")", relative)
	default:
		e.Cwd = e.project
	}
	return ""
}

// inProject joins a relative path to the folder of the project.
func (e *entry) inProject(name string) string {
	if e.project == "" || isAbsolute(name) {
		return name
	}
	return path.Join(strings.ReplaceAll(e.project, `\`, "/"), strings.ReplaceAll(name, `\`, "/"))
}

// isAbsolute reports whether a path does not depend on the working directory, on any system.
func isAbsolute(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, `\`) || strings.HasPrefix(name, "${") || windowsDrive.MatchString(name)
}

var (
	windowsDrive = regexp.MustCompile(`^[A-Za-z]:[\\/]`)
	scriptFile   = regexp.MustCompile(`^[\w.-]+([/\\][\w.-]+)*\.(py|js|mjs|cjs|ts|sh|jar|csproj|dll|rb|php|exe|ps1)$`)
)

// relative describes the first path that depends on the working directory, or returns "".
func (e *entry) relative() string {
	isRelative := func(text string) bool {
		return text == "." || text == ".." || slices.ContainsFunc([]string{"./", "../", `.\`, `..\`}, func(begin string) bool { return strings.HasPrefix(text, begin) }) ||
			scriptFile.MatchString(text)
	}
	if strings.ContainsAny(e.Command, `/\`) && !isAbsolute(e.Command) {
		return "the command"
	}
	for i, arg := range e.Args {
		if slices.Contains([]string{"--directory", "--cwd", "--cd", "-C"}, arg) {
			return "" // the program changes to another folder first
		}
		if isRelative(arg) {
			return fmt.Sprintf("argument %d", i+1)
		}
	}
	return ""
}

// home replaces the ~ at the beginning of a path.
func (e *entry) home(text string) string {
	rest, ok := strings.CutPrefix(text, "~")
	if !ok || rest != "" && rest[0] != '/' && rest[0] != '\\' {
		return text
	}
	if e.src.Home != "" {
		return e.src.Home + rest
	}
	return "${HOME}" + rest
}

// placeholder notes a value that was copied from an example.
func (e *entry) placeholder(at, cure string) {
	e.Disabled, e.Unfinished = true, true
	e.note(e.line, "%s is a placeholder, and the server is disabled (%s)", at, cure)
}

// finishPairs translates variables or headers. refuse returns why a name is invalid, or "".
func (e *entry) finishPairs(pairs []Pair, what string, refuse func(string) string) []Pair {
	var out []Pair
	for _, p := range pairs {
		at := what + " " + clean(p.Name)
		if reason := refuse(p.Name); reason != "" {
			e.note(e.line, "%s is not imported: %s", at, reason)
			continue
		}
		value, ok := e.replace(p.Value, at)
		if !ok || strings.ContainsRune(value, 0) {
			e.note(e.line, "%s is not imported: its value has a ${ without an end or a NUL", at)
			continue
		}
		switch {
		case isReplaceable(p.Name, value):
			e.unset = append(e.unset, clean(p.Name))
		case isPlaceholder(value, isSecret(p.Name, "a long value")):
			e.placeholder(at, `write the real value, and remove "disabled"`)
		}
		out = append(out, Pair{p.Name, value})
	}
	return out
}

// finishAddress translates the values of a remote server. It returns why that is impossible,
// or "".
func (e *entry) finishAddress() string {
	if e.URL == "" {
		return ""
	}
	address, ok := e.replace(strings.TrimSpace(e.URL), "the address")
	if !ok {
		return "its address has a ${ without an end"
	}
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, "${") {
		e.note(e.line, "the address has no scheme, and is read as http or https")
		scheme := "https://"
		if host, _, _ := strings.Cut(address, ":"); host == "localhost" || strings.HasPrefix(host, "127.") {
			scheme = "http://"
		}
		address = scheme + address
	}
	seen := make(map[string]bool)
	e.Headers = e.finishPairs(e.Headers, "header", func(name string) string {
		lower := strings.ToLower(name)
		defer func() { seen[lower] = true }()
		switch {
		case !valid.IsToken(name):
			return "it cannot be the name of a header"
		case valid.IsReservedHeader(name):
			return "the gateway sets it"
		case seen[lower]:
			return "it is there in another spelling"
		}
		return ""
	})
	e.Headers = slices.DeleteFunc(e.Headers, func(p Pair) bool {
		return strings.ContainsFunc(p.Value, valid.IsControl)
	})
	return e.checkAddress(address)
}

// checkAddress takes the parts out of an address that must not be in a configuration.
func (e *entry) checkAddress(address string) string {
	address = e.withoutUser(address)
	e.URL = address
	if strings.Contains(address, "${") {
		return "" // known only with its variables
	}
	if strings.ContainsAny(address, "<>{}") || isPlaceholder(address, false) {
		e.placeholder("the address", `write the real one, and remove "disabled"`)
		return ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || !valid.IsPort(u.Port()):
		return "its address is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("the gateway cannot reach an address with %.10q (use http or https)", u.Scheme)
	}
	if u.Fragment != "" {
		e.note(e.line, "the part of the address after # is not imported: it is never sent")
		u.Fragment, u.RawFragment = "", ""
		e.URL = u.String()
	}
	return ""
}

// withoutUser returns an address without the user in it, who becomes a header.
func (e *entry) withoutUser(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(strings.NewReplacer("?", "/", "#", "/").Replace(rest), "/")
	at := strings.LastIndexByte(host, '@')
	if at < 0 {
		return address
	}
	switch u, err := url.Parse("//" + rest[:at] + "@host"); {
	case slices.ContainsFunc(e.Headers, func(p Pair) bool { return strings.EqualFold(p.Name, "Authorization") }):
		e.note(e.line, "the user in the address is not imported: the Authorization header is used instead")
	case err != nil || strings.Contains(rest[:at], "${"):
		e.Disabled, e.Unfinished = true, true
		e.note(e.line, `the user in the address is not imported, and the server is disabled (write an Authorization header in "headers", and remove "disabled")`)
	default:
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		e.note(e.line, "the user in the address becomes a header")
		e.Headers = append(e.Headers, Pair{"Authorization", "Basic " + basic})
	}
	return scheme + "://" + rest[at+1:]
}

// finishFilters makes the names of tools fit for a configuration. A filter that cannot be
// written would offer more than the client does, so that the server is disabled.
func (e *entry) finishFilters() {
	usable := func(patterns []string, key string) []string {
		var out []string
		for _, pattern := range patterns {
			pattern = strings.TrimSpace(pattern)
			switch {
			case pattern == "" || slices.Contains(out, pattern):
			case strings.ContainsAny(pattern, `?[]{}|^$\,()`) || strings.HasPrefix(pattern, "!") || strings.ContainsFunc(pattern, unicode.IsControl):
				e.Disabled = true
				e.note(e.line, "a pattern of %q is not imported, and the server is disabled: only * is special here", key)
			default:
				out = append(out, pattern)
			}
		}
		return out
	}
	e.Include, e.Exclude = usable(e.Include, "include"), usable(e.Exclude, "exclude")
	if slices.Contains(e.Include, "*") {
		e.Include = nil
	}
	if len(e.Include) == 0 || len(e.Exclude) == 0 {
		return
	}
	// What is excluded has precedence in all clients. A configuration must not name it twice.
	e.Include = slices.DeleteFunc(e.Include, func(included string) bool {
		return slices.ContainsFunc(e.Exclude, func(excluded string) bool { return glob.Covers(excluded, included) })
	})
	if len(e.Include) == 0 {
		e.Disabled, e.Exclude = true, []string{"*"} // also when it is enabled
		e.note(e.line, "all tools of the server are excluded, so that it is disabled")
		return
	}
	e.Exclude = slices.DeleteFunc(e.Exclude, func(excluded string) bool {
		return !slices.ContainsFunc(e.Include, func(included string) bool { return glob.Overlap(excluded, included) })
	})
}

// isSelf reports whether an entry is that of the gateway itself.
func (e *entry) isSelf() bool {
	program := path.Base(strings.ReplaceAll(e.Command, `\`, "/"))
	if program == "signalbox" || program == "signalbox.exe" {
		return true
	}
	for _, arg := range e.Args {
		if strings.HasSuffix(arg, "/cmd/signalbox") || strings.HasPrefix(arg, "github.com/signalbox-mcp/signalbox/cmd/signalbox") {
			return true
		}
	}
	u, err := url.Parse(e.URL)
	if err != nil || e.URL == "" {
		return false
	}
	local := u.Hostname() == "localhost" || strings.HasPrefix(u.Hostname(), "127.") || u.Hostname() == "::1"
	return local && (u.Port() == "7777" && (u.Path == "/mcp" || u.Path == "/sse" || strings.HasPrefix(u.Path, "/mcp/p/")) || e.Original == "signalbox")
}

// finishName makes the name fit for a configuration and for the names of tools.
func (e *entry) finishName() {
	original := e.Original
	if original == "" {
		original = e.derivedName()
	}
	e.Name = FitName(original)
	if e.Original != "" && e.Name != e.Original {
		e.Notes = append(e.Notes, Note{e.line, fmt.Sprintf("renamed from %q", clean(e.Original)), true})
	}
}

// maxName leaves space for the name of a tool after it.
const maxName = 40

// FitName makes a name fit for a server: letters, digits, _ and -, no repeated _, and not
// too long. Of a name with slashes it uses the last part.
func FitName(name string) string {
	name = strings.TrimRight(strings.TrimSpace(name), "/")
	if i := strings.LastIndexByte(name, '/'); i >= 0 && strings.ContainsFunc(name[i:], unicode.IsLetter) {
		name = name[i+1:]
	}
	var b strings.Builder
	before := '_'
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' {
			r = '_'
		}
		if r != '_' || before != '_' {
			b.WriteRune(r)
		}
		before = r
	}
	fit := strings.Trim(b.String(), "_-")
	fit = strings.TrimRight(fit[:min(len(fit), maxName)], "_-")
	if fit == "" {
		return "server"
	}
	return fit
}

// derivedName returns a name for a server that has none: from its host, or its package.
func (e *entry) derivedName() string {
	if u, err := url.Parse(e.URL); err == nil && u.Hostname() != "" {
		labels := slices.DeleteFunc(strings.Split(u.Hostname(), "."), func(label string) bool {
			return slices.Contains([]string{"www", "mcp", "api", "com", "org", "net", "io", "dev", "ai", "app", "example"}, label)
		})
		if len(labels) > 0 {
			return labels[0]
		}
		return u.Hostname()
	}
	name := path.Base(strings.ReplaceAll(e.Command, `\`, "/"))
	for i, arg := range e.Args {
		if strings.HasPrefix(arg, "-") || i > 0 && takesValue(e.Args[i-1]) || slices.Contains([]string{"run", "exec", "tool", "dlx", "x", "/c"}, arg) {
			continue
		}
		name = path.Base(strings.ReplaceAll(arg, `\`, "/"))
		break
	}
	if i := strings.LastIndexByte(name, '@'); i > 0 {
		name = name[:i]
	}
	name, _, _ = strings.Cut(name, ":")
	for _, end := range []string{".py", ".js", ".ts", ".exe", ".sh"} {
		name = strings.TrimSuffix(name, end)
	}
	for _, part := range []string{"mcp-server-", "server-", "mcp-"} {
		name = strings.TrimPrefix(name, part)
	}
	for _, part := range []string{"-mcp-server", "-server", "-mcp"} {
		name = strings.TrimSuffix(name, part)
	}
	return name
}
