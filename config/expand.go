// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// expand replaces the variables in text. They are those of the environment; what it does not
// have, or has empty, is taken from the file of secrets:
//
//	${NAME}           the variable
//	${env:NAME}       the same, as editors write it
//	${NAME:-default}  the default if the variable is not set or empty
//	${file:PATH}      the content of a private file
//	${keyring:NAME}   an entry in the keyring of the operating system
//
// Nothing else is special: a dollar sign without a brace is kept, and the value of a
// variable is not expanded again. A literal "${" cannot be written, as in the programs that
// share these files; a variable can contain it. If filled is set, an empty variable without a
// default is rejected.
func (r *reader) expand(text string, p place, filled bool) string {
	r.noteLiteral(text, p)
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		reference, rest, closed := strings.Cut(after, "}")
		if !closed {
			r.reject(p, "close it with }", "%q has a ${ without an end", p.name)
			return out.String()
		}
		if !r.formOnly {
			out.WriteString(r.variable(reference, p, filled))
		}
		text = rest
	}
}

// variable returns the value of a reference, which is the text between the braces. Messages
// have the name of the variable and never its value.
func (r *reader) variable(reference string, p place, filled bool) string {
	if value, ok := r.stored(reference, p, filled); ok {
		return value
	}
	name, fallback, hasFallback := strings.Cut(strings.TrimPrefix(reference, "env:"), ":-")
	value, set := "", false
	if r.lookup != nil && valid.IsVariable(name) {
		value, set = r.lookup(name)
	}
	if value == "" && valid.IsVariable(name) && !strings.Contains(fallback, "${") {
		secret, found := r.secret(name)
		if found {
			r.reportSecrets()
			return secret
		}
		if !set && !hasFallback && r.reportSecrets() {
			r.markRejected(p.path) // the variable may be in the file
			return ""
		}
	}
	switch {
	case !valid.IsVariable(name):
		r.reject(p, referenceHint(reference), "%q has an unsupported reference: ${%s}", p.name, shorten(reference))
	// The first closing brace would end the default.
	case strings.Contains(fallback, "${"):
		r.reject(p, "a default is plain text", "%q has a reference inside the default of ${%s}", p.name, name)
		return ""
	// As with :- in a shell, and unlike with -, which is not supported: an empty variable
	// is most often one that was not filled in.
	case hasFallback && value == "":
		return fallback
	case !set:
		// Some names are not variables but known to editors only.
		hint := referenceHint(name)
		if hint == anyReference {
			hint = "set it, run 'signalbox secret set " + name + "', or write ${" + name + ":-default}"
		}
		r.reject(p, hint, "%q needs the environment variable %s, which is not set", p.name, name)
	case filled && value == "":
		r.reject(p, "write ${"+name+":-} if that is meant", "%q needs the environment variable %s, which is empty", p.name, name)
	}
	return value
}

const anyReference = "write ${NAME} or ${NAME:-default}"

// referenceHint returns the hint for a reference that only editors support.
func referenceHint(reference string) string {
	kind, _, colon := strings.Cut(reference, ":") // ${input:id} and the like
	switch kind {
	case "input":
		return "the gateway cannot ask for input: write ${NAME} and run 'signalbox secret set NAME', or translate the file with 'signalbox import'"
	case "userHome":
		return "write ${HOME}"
	case "workspaceFolder", "workspaceFolderBasename":
		return "there is no workspace here: write the path"
	case "pathSeparator", "/":
		return "write the separator"
	case "command", "config":
		if !colon {
			return anyReference
		}
		return "only editors support it: write the value"
	default:
		return anyReference
	}
}

// shorten returns the name of an unsupported reference. The rest may be a default in
// another syntax, and so a secret.
func shorten(reference string) string {
	// The ID of an input is not a default, and identifies the reference.
	if id, ok := strings.CutPrefix(reference, "input:"); ok && isName(id, maxServerName) {
		return reference
	}
	end := strings.IndexFunc(reference, func(r rune) bool { return r > 0x7f || !isNameByte(byte(r)) || r == '-' })
	if end < 0 {
		end = len(reference)
	}
	if shown := min(end, maxServerName); shown < len(reference) {
		return reference[:shown] + "..."
	}
	return reference
}
