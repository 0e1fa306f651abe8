// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// replace translates the references in a text to those of the gateway: ${NAME} and
// ${NAME:-default}. at describes the place of the text in notes. ok is false if the text has
// a reference that cannot be written in a configuration.
func (e *entry) replace(text, at string) (out string, ok bool) {
	if e.dialect == clients.Continue {
		text = secretReference.ReplaceAllString(text, "${$1}")
	}
	if e.dialect == clients.OpenCode {
		text = e.replaceBraces(text, at)
	}
	text = e.replaceShell(text, at)
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		reference, rest, closed := strings.Cut(after, "}")
		if !closed {
			return "", false
		}
		b.WriteString(e.reference(reference, at))
		text = rest
	}
}

var (
	// secretReference is how Continue writes a secret or an input.
	secretReference = regexp.MustCompile(`\$\{\{\s*(?:secrets|inputs)\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)
	// braceReference is how OpenCode writes a variable or the content of a file.
	braceReference = regexp.MustCompile(`\{(env|file):([^{}]*)\}`)
	shellVariable  = regexp.MustCompile(`\$[A-Z_][A-Z0-9_]{2,}\b`)
	shellCommand   = regexp.MustCompile(`\$\([^()]*\)`)
)

func (e *entry) replaceBraces(text, at string) string {
	return braceReference.ReplaceAllStringFunc(text, func(found string) string {
		parts := braceReference.FindStringSubmatch(found)
		if parts[1] == "env" && valid.IsVariable(parts[2]) {
			return "${" + parts[2] + "}"
		}
		return e.asked(at, "the content of a file", variableName(path.Base(parts[2])))
	})
}

// replaceShell translates $NAME, which two clients replace, and $(command), which one does.
// In arguments of other clients a shell may replace it; elsewhere it was meant as a variable.
func (e *entry) replaceShell(text, at string) string {
	if e.dialect == clients.Crush {
		text = shellCommand.ReplaceAllStringFunc(text, func(string) string {
			_, name, _ := strings.Cut(at, " ")
			return e.asked(at, "the output of a command", variableName(name))
		})
	}
	replaced := e.dialect == clients.Gemini || e.dialect == clients.Crush
	if !replaced && (strings.HasPrefix(at, "argument") || at == "the command") {
		return text
	}
	return shellVariable.ReplaceAllStringFunc(text, func(found string) string {
		if !replaced {
			e.note(e.line, "%s has %s, which is taken as a variable (the client would use it as it is)", at, found)
		}
		return "${" + found[1:] + "}"
	})
}

// asked returns a reference to a variable in place of a value that the gateway cannot get by
// itself, with a note.
func (e *entry) asked(at, what, name string) string {
	e.note(e.line, "%s has %s, which becomes ${%s} (set the environment variable %[3]s)", at, what, name)
	return "${" + name + "}"
}

// reference translates what is between ${ and }.
func (e *entry) reference(reference, at string) string {
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(strings.TrimSpace(reference), "env:"), ":-")
	if valid.IsVariable(name) {
		switch {
		case (name == "HOME" || name == "USERPROFILE") && e.src.Home != "":
			return e.src.Home
		case name == "CLAUDE_PROJECT_DIR" && e.project != "":
			return e.project
		case name == "workspaceFolder", name == "workspaceRoot", name == "userHome", name == "workspaceFolderBasename", name == "pathSeparator":
		case hasFallback && !strings.Contains(fallback, "${"):
			return "${" + name + ":-" + fallback + "}"
		default:
			return "${" + name + "}"
		}
	}
	kind, rest, _ := strings.Cut(reference, ":")
	switch kind {
	case "input":
		name := variableName(rest)
		if in, ok := e.inputs[rest]; ok && in.fallback != "" && !strings.ContainsAny(in.fallback, "${}") {
			e.note(e.line, "%s asks for the input %q, which becomes ${%s}, by default as in the file", at, rest, name)
			return "${" + name + ":-" + in.fallback + "}"
		}
		return e.asked(at, `the input "`+clean(rest)+`"`, name)
	case "workspaceFolder", "workspaceRoot":
		if e.project != "" {
			return e.project
		}
		return e.asked(at, "the folder of the workspace", "WORKSPACE_FOLDER")
	case "workspaceFolderBasename":
		if e.project != "" {
			return path.Base(strings.ReplaceAll(e.project, `\`, "/"))
		}
		return e.asked(at, "the name of the workspace", "WORKSPACE_NAME")
	case "userHome":
		if e.src.Home != "" {
			return e.src.Home
		}
		return "${HOME}"
	case "pathSeparator", "/":
		return "/"
	}
	return e.asked(at, `the reference "`+clean(kind)+`"`, variableName(reference))
}

// clean returns a text for a note: only the beginning, and no control characters.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' {
			return '_'
		}
		return r
	}, text)
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "..."
	}
	return text
}

// variableName returns a name for an environment variable, such as API_KEY for api-key.
func variableName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, text)
	name = strings.Trim(name, "_")
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		name = "INPUT_" + name
	}
	return name[:min(len(name), 60)]
}

// variables returns the variables without a default to which the values refer.
func (s *Server) variables() []string {
	var all []string
	for _, text := range s.texts() {
		for _, found := range ownReference.FindAllStringSubmatch(text, -1) {
			all = append(all, found[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var ownReference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// isPlaceholder reports whether a value was copied from an example. isSecret is whether its
// name is that of a secret.
func isPlaceholder(value string, isSecret bool) bool {
	value = strings.TrimSpace(strings.TrimPrefix(value, "Bearer "))
	lower := strings.ToLower(value)
	if strings.Contains(lower, "****") || strings.HasSuffix(lower, "…") || strings.HasSuffix(lower, "...") && isSecret || strings.HasPrefix(lower, "<") && strings.HasSuffix(lower, ">") && len(lower) > 2 || strings.HasPrefix(lower, "{") && strings.HasSuffix(lower, "}") && isSecret {
		return true
	}
	for _, begin := range []string{"your-", "your_", "yourapi", "replace-", "replace_", "replace with", "insert-", "insert_", "/path/to/", "path/to/", "/absolute/path/", "/full/path/"} {
		if strings.HasPrefix(lower, begin) {
			return true
		}
	}
	if !isSecret || value == "" {
		return false
	}
	word := strings.Trim(lower, "*.x-_ ")
	return word == "" || slices.Contains([]string{"redacted", "changeme", "change-me", "todo", "secret", "token", "api-key", "api_key", "placeholder", "none", "null"}, word) ||
		strings.HasSuffix(lower, "_here") || strings.HasSuffix(lower, "-here")
}

// template matches arguments with a part that was copied from an example.
var template = regexp.MustCompile(`<[A-Z][A-Z0-9_-]{2,}>|(?i:(?:^|[/\\=:@\s])your[_-])|/path/to/`)

// knownSecret matches the forms of tokens that services give out, and addresses with a
// password.
var knownSecret = regexp.MustCompile(`(?:^|[\s=:])(?:gh[opsu]_|github_pat_|glpat-|sk-|xox[abcdp]-|sbp_|figd_|ntn_|hf_|npm_|AIza|AKIA|lin_api_|eyJ[A-Za-z0-9_-]{10,}\.)|://[^/\s:@]*:[^/\s@]+@`)

// isSecret reports whether a literal is one, by its name or by its form.
func isSecret(name, value string) bool {
	if value == "" || strings.Contains(value, "${") {
		return false
	}
	return redact.IsSecretName(name) && len(value) > 3 || strings.HasSuffix(strings.ToUpper(name), "_KEY") && len(value) > 12 || knownSecret.MatchString(value)
}

// isSecretArg reports whether an argument has a literal secret: by its form, by its own flag
// as in --token=x, by the flag before it, or as the value of a variable for a container.
func isSecretArg(args []string, i int) bool {
	flag, value, assigned := strings.Cut(args[i], "=")
	switch {
	case knownSecret.MatchString(args[i]):
		return true
	case isSecretHeader(args[i]):
		return true
	case assigned:
		return isSecret(flag, value)
	case i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=") && !strings.HasPrefix(args[i], "-"):
		return isSecret(args[i-1], args[i]) || args[i-1] == "--key" && len(args[i]) > 12 && !strings.Contains(args[i], "${")
	}
	return false
}

// isSecretHeader reports whether an argument is a header with a secret, as for a proxy of a
// remote server.
func isSecretHeader(arg string) bool {
	header, value, ok := strings.Cut(arg, ":")
	return ok && !strings.ContainsAny(header, " /") && redact.IsSecretName(header) && isSecret(header, strings.TrimSpace(value))
}
