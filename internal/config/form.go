// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// form is one way to write a value: how it is read, and how it is described to
// people and to editors. Forms are made of forms: a list of strings is
// listOf(text()).
type form[F any] struct {
	// want names the form in messages and documents, with its article.
	want string
	// read puts the value into its field, or complains and leaves the field.
	read func(r *reader, n node, p place, into *F)
	// schema describes what read accepts, before variables are expanded.
	schema func() *jsonschema.Schema
	// fill sets the fields below, if there are any, to their defaults.
	fill func(into *F)
	// rows are the keys below, if there are any, for documents.
	rows func(prefix string) []row
}

// text is a string, as it is written.
func text() form[string] {
	return form[string]{
		want: "a string",
		read: func(r *reader, n node, p place, into *string) {
			if s, ok := r.text(n, p); ok {
				*into = s
			}
		},
		schema: schemaOf("string"),
	}
}

// text returns the string that a node is.
func (r *reader) text(n node, p place) (string, bool) {
	if n.kind == kindText {
		return n.text, true
	}
	hint := ""
	switch n.kind {
	case kindBool, kindInteger, kindFloat:
		// YAML made a number or boolean of what was meant as text. To take it as written
		// would turn 0x10 and 1_000 into what nobody wrote, so the author decides.
		hint = "put it in quotes"
	case kindNull:
		hint = `write "" for an empty one`
	default:
	}
	r.wrongKind(n, p, "a string", hint)
	return "", false
}

// expanded is a string in which variables are replaced.
func expanded() form[string] {
	f := text()
	f.read = func(r *reader, n node, p place, into *string) {
		if s, ok := r.text(n, p); ok {
			*into = r.expand(s, n.at, p)
		}
	}
	return f
}

// filled is an expanded string that may not come to nothing by its variables:
// then it would count as not being there.
func filled() form[string] {
	f := expanded()
	read := f.read
	f.read = func(r *reader, n node, p place, into *string) {
		known := r.found()
		read(r, n, p, into)
		if *into == "" && n.text != "" && r.found() == known && !r.formOnly {
			r.complain(n.at, p, "set them, or write ${NAME:-default}", "%q is empty when its variables are replaced", p.name)
		}
	}
	return f
}

// pathname is an expanded string that leads to a file or folder.
func pathname() form[string] {
	f := expanded()
	read := f.read
	f.read = func(r *reader, n node, p place, into *string) {
		read(r, n, p, into)
		if n.kind != kindText || n.text == "" || r.formOnly {
			return
		}
		if problem, hint := notAPath(*into); problem != "" {
			r.complain(n.at, p, hint, "%q %s", p.name, problem)
			return
		}
		*into = r.resolve(*into)
	}
	return f
}

// notAPath says why a text leads nowhere, or "".
func notAPath(text string) (problem, hint string) {
	switch {
	case strings.ContainsRune(text, 0):
		return "has a NUL in it", "remove it"
	case text == "~" || strings.HasPrefix(text, "~/"):
		return "begins with ~, which only a shell replaces", "write ${HOME}"
	}
	return "", ""
}

// auditFile is a pathname that leads somewhere: a variable that somebody forgot
// to fill must not be the end of the record.
func auditFile() form[string] {
	f := text()
	f.read = func(r *reader, n node, p place, into *string) {
		s, ok := r.text(n, p)
		if !ok {
			return
		}
		if s == "" {
			r.complain(n.at, p, `remove "audit" to have the entries in the log`, "%q is empty", p.name)
			return
		}
		known := r.found()
		path := r.expandFilled(s, n.at, p)
		if path == "" || r.found() > known {
			return
		}
		if problem, hint := notAPath(path); problem != "" {
			r.complain(n.at, p, hint, "%q %s", p.name, problem)
			return
		}
		*into = r.resolve(path)
		if problem, hint := whyNoRecord(*into); problem != "" {
			r.complain(n.at, p, hint, "%q: %s", p.name, problem)
		}
	}
	return f
}

// secret is an expanded string that is not printed. A variable in it that is set
// to nothing is most often one that somebody forgot to fill.
func secret() form[Secret] {
	return form[Secret]{
		want: "a string",
		read: func(r *reader, n node, p place, into *Secret) {
			if s, ok := r.text(n, p); ok {
				r.literal(s, p)
				*into = NewSecret(r.expandFilled(s, n.at, p))
			}
		},
		schema: schemaOf("string"),
	}
}

// oneOf is one of some words.
func oneOf[S ~string](words ...S) form[S] {
	names := make([]string, len(words))
	for i, word := range words {
		names[i] = string(word)
	}
	return form[S]{
		want: strings.Join(names, ", "),
		read: func(r *reader, n node, p place, into *S) {
			s, ok := r.text(n, p)
			switch {
			case !ok:
				// Case counts, as everywhere in the file.
			case slices.Contains(names, s):
				*into = S(s)
			default:
				hint := didYouMean(s, names)
				r.complain(n.at, p, hint, "%q wants one of %s", p.name, strings.Join(names, ", "))
			}
		},
		schema: func() *jsonschema.Schema {
			s := &jsonschema.Schema{}
			for _, name := range names {
				s.Enum = append(s.Enum, name)
			}
			return s
		},
	}
}

// typeName is one of the types of servers, also in the spellings of other programs.
func typeName() form[Type] {
	f := oneOf(TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE)
	read, schema := f.read, f.schema
	f.read = func(r *reader, n node, p place, into *Type) {
		if n.kind == kindText && slices.Contains(streamableSpellings(), n.text) {
			n.text = string(TypeStreamableHTTP)
		}
		read(r, n, p, into)
	}
	f.schema = func() *jsonschema.Schema {
		s := schema()
		for _, spelling := range streamableSpellings() {
			s.Enum = append(s.Enum, spelling)
		}
		return s
	}
	return f
}

func streamableSpellings() []string { return []string{"streamableHttp", "streamable_http"} }

// isTypeName reports whether typeName takes a text.
func isTypeName(text string) bool {
	return slices.Contains([]Type{TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE}, Type(text)) || slices.Contains(streamableSpellings(), text)
}

// boolean is true or false.
func boolean() form[bool] {
	return form[bool]{
		want: "true or false",
		read: func(r *reader, n node, p place, into *bool) {
			if n.kind != kindBool {
				r.wrongKind(n, p, "true or false", booleanHint(n))
				return
			}
			// The syntax has no other way to write one: YAML 1.2 has no yes and no on.
			*into = n.text == "true"
		},
		schema: schemaOf("boolean"),
	}
}

// meansTrue reports whether a boolean is true, or is refused with the hint to write
// that.
func meansTrue(n node) bool {
	if n.kind == kindBool {
		return n.text == "true"
	}
	return booleanHint(n) == "write true"
}

// booleanHint knows the words that older YAML took for booleans.
func booleanHint(n node) string {
	switch strings.ToLower(n.text) {
	case "true", "yes", "on", "1":
		return "write true"
	case "false", "no", "off", "0":
		return "write false"
	default:
		return ""
	}
}

// duration is a time with its unit, or none.
func duration() form[time.Duration] {
	return measure[time.Duration]("a duration", durationPattern, parseDuration, durationHint)
}

// size is a number of bytes with its unit, or none.
func size() form[int64] {
	return measure[int64]("a size", sizePattern, parseBytes, bytesHint)
}

// The schema's view of durations and sizes.
const (
	durationPattern = `^(none|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern     = `^(none|[0-9]+(B|KiB|MiB|GiB))$`
)

// measure is a number with a unit, written as a string. A bare number is the
// most common mistake: the clients of this field count some times in seconds
// and some in milliseconds, so no unit is assumed.
func measure[F ~int64](want, pattern string, parse func(string) (F, error), hint func(string, error) string) form[F] {
	return form[F]{
		want: want,
		read: func(r *reader, n node, p place, into *F) {
			if n.kind != kindText && n.kind != kindInteger && n.kind != kindFloat {
				r.wrongKind(n, p, want, hint("", nil))
				return
			}
			// A word and not zero or minus one: those are what a program writes by mistake.
			if n.text == none {
				*into = noLimit
				return
			}
			// A number comes here as it was written, so that the hint can repeat it.
			v, err := parse(n.text)
			if err != nil {
				r.complain(n.at, p, hint(n.text, err), "%q wants %s, and %.20q %v", p.name, want, n.text, err)
				return
			}
			*into = v
		},
		schema: func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} },
	}
}

// count is a whole number above zero, or none.
func count() form[int] {
	return form[int]{
		want: "a whole number",
		read: func(r *reader, n node, p place, into *int) {
			if n.kind == kindText && n.text == none {
				*into = noLimit
				return
			}
			v, err := strconv.Atoi(n.text)
			// A zero would be a gateway that serves nobody, or one without a limit, as each
			// reader likes.
			if err != nil || v <= 0 || n.kind != kindInteger {
				r.complain(n.at, p, countHint(n), "%q wants a whole number above zero", p.name)
				return
			}
			*into = v
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
				{Type: "integer", Minimum: new(1.0)},
				{Enum: []any{none}},
			}}
		},
	}
}

// countHint says what to write instead of what is not a count.
func countHint(n node) string {
	// The only mistake here that looks right on the screen.
	if v, err := strconv.Atoi(n.text); err == nil && v > 0 {
		return "write it without quotes"
	}
	return fmt.Sprintf("write %q for no limit", none)
}

// optional is a form whose absence differs from its zero value.
func optional[F any](of form[F]) form[*F] {
	return form[*F]{
		want: of.want,
		read: func(r *reader, n node, p place, into **F) {
			// Also where it could not be read: what was there is not the default.
			var v F
			of.read(r, n, p, &v)
			*into = &v
		},
		schema: of.schema,
	}
}

// listOf is a list of one form.
func listOf[F any](of form[F]) form[[]F] {
	return form[[]F]{
		want: "a list of " + plural(of.want),
		read: func(r *reader, n node, p place, into *[]F) {
			if n.kind != kindList {
				r.wrongKind(n, p, "a list", listHint(n))
				return
			}
			// One for each element, also for those that cannot be read: places are counted in it.
			list := make([]F, len(n.items))
			for i, item := range n.items {
				// Before it is read: what is wrong with it is said with its place.
				r.where[p.item(i).path] = item.at
				of.read(r, item, p.item(i), &list[i])
			}
			*into = list
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{Type: "array", Items: of.schema()}
		},
		rows: below(of, "[]"),
	}
}

// listHint knows the most common mistake, which is a list of one.
func listHint(n node) string {
	switch n.kind {
	case kindText, kindInteger, kindFloat, kindBool:
		return "put it in [ ]"
	case kindNull:
		return "write [] for an empty one"
	default:
		return ""
	}
}

// mapOf is a mapping whose keys are names of the operator's own.
func mapOf[F any](of form[F]) form[map[string]F] {
	return form[map[string]F]{
		want: "a mapping of names to " + plural(of.want),
		read: func(r *reader, n node, p place, into *map[string]F) {
			m := make(map[string]F, len(n.members))
			r.eachMember(n, p, `write "NAME: VALUE" for each`, func(name string, n node, p place) {
				var v F
				of.read(r, n, p, &v)
				// A repeated key has been refused before: the first one is not overwritten.
				m[name] = v
			})
			*into = m
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{Type: "object", AdditionalProperties: of.schema()}
		},
	}
}

// plural is what a form wants, for many of them.
func plural(want string) string { return strings.TrimPrefix(want, "a ") + "s" }

// below is the rows of a form that stands inside another.
func below[F any](of form[F], suffix string) func(prefix string) []row {
	if of.rows == nil {
		return nil
	}
	return func(prefix string) []row { return of.rows(prefix + suffix) }
}

func schemaOf(kind string) func() *jsonschema.Schema {
	return func() *jsonschema.Schema { return &jsonschema.Schema{Type: kind} }
}
