// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// form is one way to write a value. Forms can contain forms: a list of strings is
// listOf(text()). The documents and the schema are generated from the forms by tests.
type form struct {
	// want describes the form in messages and documents, with its article.
	want string
	// read sets a field to the value, or reports a problem. p has the position of the value.
	read func(r *reader, n configfile.Node, p place, into reflect.Value)

	words  []string     // the valid words, if the value is one of several
	elem   *form        // of the elements of a list or of a mapping with arbitrary keys
	keys   []key        // of a mapping with known keys
	others []foreignKey // likewise
}

// then returns the form with a step after reading, for keys that depend on each other.
func (f form) then(step func(r *reader, n configfile.Node, p place, into reflect.Value)) form {
	read := f.read
	f.read = func(r *reader, n configfile.Node, p place, into reflect.Value) {
		read(r, n, p, into)
		step(r, n, p, into)
	}
	return f
}

// textAs is a string that convert makes the value of the field.
func textAs[F any](convert func(r *reader, text string, p place) F) form {
	return form{
		want: "a string",
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			if text, ok := r.text(n, p); ok {
				into.Set(reflect.ValueOf(convert(r, text, p)))
			}
		},
	}
}

// text returns the value of a string node.
func (r *reader) text(n configfile.Node, p place) (string, bool) {
	hint := ""
	switch n.Kind {
	case configfile.Text:
		return n.Text, true
	case configfile.Bool, configfile.Integer, configfile.Float:
		// YAML parsed a number or boolean where text was expected. Its source text is not
		// used instead: 0x10 or 1_000 may not be what was meant, so the author decides.
		hint = "put it in quotes"
	case configfile.Null:
		hint = `write "" for an empty one`
	default:
	}
	r.wrongKind(n, p, "a string", hint)
	return "", false
}

// text is an unmodified string.
func text() form {
	return textAs(func(_ *reader, text string, _ place) string { return text })
}

// expanded is a string with variables replaced.
func expanded() form {
	return textAs(func(r *reader, text string, p place) string { return r.expand(text, p, false) })
}

// nonEmpty is an expanded string that must not become empty by its variables: it would
// count as absent.
func nonEmpty() form {
	return textAs(func(r *reader, text string, p place) string {
		value := r.expand(text, p, false)
		if value == "" && text != "" && !r.has(p) && !r.formOnly {
			r.reject(p, "set them, or write ${NAME:-default}", "%q is empty when its variables are replaced", p.name)
		}
		return value
	})
}

// pathname is an expanded string that is the path of a file or folder.
func pathname() form {
	return textAs(func(r *reader, text string, p place) string {
		path := r.expand(text, p, false)
		if text == "" || r.formOnly {
			return path
		}
		return r.resolve(path, p)
	})
}

// resolve makes a relative path of the file relative to the working directory. It rejects a
// text that cannot be a path.
func (r *reader) resolve(path string, p place) string {
	if problem, hint, as := notAPath(path); problem != "" {
		r.reject(p.as(as), hint, "%q %s", p.name, problem)
		return path
	}
	// An empty path means none, and not the folder of the file.
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(r.file), path)
}

// notAPath reports why a text cannot be a path, or "". The code may be empty.
func notAPath(text string) (problem, hint, as string) {
	switch {
	case strings.ContainsRune(text, 0):
		return "has a NUL in it", "remove it", ""
	case text == "~" || strings.HasPrefix(text, "~/"):
		return "begins with ~, which only a shell replaces", "write ${HOME}", code.FileTilde
	}
	return "", "", ""
}

// auditFile is a pathname that must not be empty: a variable that was not set must not
// disable the record.
func auditFile() form {
	return textAs(func(r *reader, text string, p place) string {
		if text == "" {
			r.reject(p, `remove "audit" to have the entries in the log`, "%q is empty", p.name)
			return ""
		}
		path := r.expand(text, p, true)
		if path == "" || r.has(p) {
			return ""
		}
		if path = r.resolve(path, p); r.has(p) {
			return ""
		}
		if problem, hint := checkAppendable(path); problem != "" {
			r.reject(p, hint, "%q: %s", p.name, problem)
		}
		return path
	})
}

// secret is an expanded string that is not printed. An empty variable in it is reported, as
// it is most often one that was not filled in.
func secret() form {
	return textAs(func(r *reader, text string, p place) Secret {
		if redact.IsSecretName(p.name) {
			r.literal(text, p)
		}
		return NewSecret(r.expand(text, p, true))
	})
}

// credential is a secret that is one whatever its name is.
func credential() form {
	return textAs(func(r *reader, text string, p place) Secret {
		r.literal(text, p)
		return NewSecret(r.expand(text, p, true))
	})
}

// stateKey is a credential that should be generated, and is called a secret in documents.
func stateKey() form {
	f := credential()
	f.want = "a secret"
	return f
}

// oneOf is one of several words. Words are case-sensitive, like everything in the file.
func oneOf(words ...string) form {
	return form{
		want:  strings.Join(words, ", "),
		words: words,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			switch word, ok := r.text(n, p); {
			case ok && slices.Contains(words, word):
				into.SetString(word)
			case ok:
				r.reject(p, spelling.DidYouMean(word, words), "%q must be one of %s", p.name, strings.Join(words, ", "))
			}
		},
	}
}

// typeName is a type of server, also in the spellings of other programs.
func typeName() form {
	f := oneOf(typeNames()...)
	read := f.read
	f.read = func(r *reader, n configfile.Node, p place, into reflect.Value) {
		if n.Kind == configfile.Text && slices.Contains(streamableSpellings(), n.Text) {
			n.Text = string(TypeStreamableHTTP)
		}
		read(r, n, p, into)
	}
	f.words = append(f.words, streamableSpellings()...)
	return f
}

func typeNames() []string           { return []string{"stdio", "http", "streamable-http", "sse"} }
func streamableSpellings() []string { return []string{"streamableHttp", "streamable_http"} }

// boolean is true or false.
func boolean() form {
	return form{
		want: "true or false",
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			if n.Kind != configfile.Bool {
				r.wrongKind(n, p, "true or false", booleanHint(n))
				return
			}
			// YAML 1.2 and JSON have no other booleans.
			value := n.Text == "true"
			if into.Kind() == reflect.Pointer { // absent is neither
				into.Set(reflect.ValueOf(&value))
				return
			}
			into.SetBool(value)
		},
	}
}

// meansTrue reports whether a value is true, or is rejected with the hint to write true.
func meansTrue(n configfile.Node) bool {
	if n.Kind == configfile.Bool {
		return n.Text == "true"
	}
	return booleanHint(n) == "write true"
}

// booleanHint recognizes the booleans of older versions of YAML.
func booleanHint(n configfile.Node) string {
	switch strings.ToLower(n.Text) {
	case "true", "yes", "on", "1":
		return "write true"
	case "false", "no", "off", "0":
		return "write false"
	default:
		return ""
	}
}

// duration is a time with its unit, or "none".
func duration() form {
	return quantity("a duration", parseDuration, durationHint)
}

// size is a number of bytes with its unit, or "none".
func size() form {
	return quantity("a size", parseBytes, bytesHint)
}

// quantity is a number with a unit, written as a string. A missing unit is the most common
// mistake: MCP clients use seconds for some times and milliseconds for others, so no unit is
// assumed.
func quantity[F ~int64](want string, parse func(string) (F, error), hint func(string, error) string) form {
	return form{
		want: want,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			switch {
			case n.Kind != configfile.Text && n.Kind != configfile.Integer && n.Kind != configfile.Float:
				r.wrongKind(n, p, want, hint("", nil))
				return
			// A word instead of 0 or -1, which a program may write by mistake.
			case n.Text == none:
				into.SetInt(noLimit)
				return
			}
			// n.Text has the source text of a number, so that the hint can repeat it.
			v, err := parse(n.Text)
			if err != nil {
				r.reject(p, hint(n.Text, err), "%q must be %s, but %.20q %v", p.name, want, n.Text, err)
				return
			}
			into.SetInt(int64(v))
		},
	}
}

// count is a whole number above zero, or "none".
func count() form {
	f := positive(fmt.Sprintf("write %q for no limit", none))
	f.want = "a whole number"
	number := f.read
	f.read = func(r *reader, n configfile.Node, p place, into reflect.Value) {
		if n.Kind == configfile.Text && n.Text == none {
			into.SetInt(noLimit)
			return
		}
		number(r, n, p, into)
	}
	return f
}

// positive is a whole number above zero. Zero is rejected, because it could mean no capacity or
// no limit. hint is for what is not a number.
func positive(hint string) form { return wholeNumber("a whole number above zero", hint, math.MaxInt) }

// wholeNumber is a whole number from 1 to most.
func wholeNumber(want, hint string, most int) form {
	return form{
		want: want,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			v, err := strconv.Atoi(n.Text)
			switch isValid := err == nil && 0 < v && v <= most; {
			case isValid && n.Kind == configfile.Integer:
				into.SetInt(int64(v))
			// A quoted number is the only mistake that is hard to see.
			case isValid:
				r.reject(p, "write it without quotes", "%q must be %s", p.name, want)
			default:
				r.reject(p, hint, "%q must be %s", p.name, want)
			}
		},
	}
}

// optional is a form for which absence differs from the zero value.
func optional(of form) form {
	read := of.read
	of.read = func(r *reader, n configfile.Node, p place, into reflect.Value) {
		// Also for an invalid value, which is different from an absent one.
		into.Set(reflect.New(into.Type().Elem()))
		read(r, n, p, into.Elem())
	}
	return of
}

// listOf is a list of values of one form.
func listOf(of form) form {
	return form{
		want: "a list of " + plural(of.want),
		elem: &of,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			if n.Kind != configfile.List {
				r.wrongKind(n, p, "a list", listHint(n))
				return
			}
			// Invalid elements are kept, as paths have their indexes.
			into.Set(reflect.MakeSlice(into.Type(), len(n.Items), len(n.Items)))
			for i, item := range n.Items {
				at := p.item(i).withAt(item.At)
				r.positions[at.path] = item.At
				of.read(r, item, at, into.Index(i))
			}
		},
	}
}

// listHint recognizes the most common mistake, a single value without brackets.
func listHint(n configfile.Node) string {
	switch n.Kind {
	case configfile.Text, configfile.Integer, configfile.Float, configfile.Bool:
		return "put it in [ ]"
	case configfile.Null:
		return "write [] for an empty one"
	default:
		return ""
	}
}

// mapOf is a mapping with arbitrary keys.
func mapOf(of form) form {
	return form{
		want: "a mapping of names to " + plural(of.want),
		elem: &of,
		read: func(r *reader, n configfile.Node, p place, into reflect.Value) {
			into.Set(reflect.MakeMap(into.Type()))
			// Called once per key, for the first of repeated ones.
			r.eachMember(n, p, `write "NAME: VALUE" for each`, func(name string, n configfile.Node, p place) {
				v := reflect.New(into.Type().Elem()).Elem()
				of.read(r, n, p, v)
				into.SetMapIndex(reflect.ValueOf(name), v)
			})
		},
	}
}

func plural(want string) string {
	if of, ok := strings.CutPrefix(want, "a list of "); ok {
		return "lists of " + of
	}
	return strings.TrimPrefix(want, "a ") + "s"
}
