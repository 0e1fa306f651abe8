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

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// form is one way to write a value: how it is parsed, and how it is described in
// documents and in the schema. Forms can contain forms: a list of strings is
// listOf(text()).
type form[F any] struct {
	// want describes the form in messages and documents, with its article.
	want string
	// read sets the field to the value, or reports a problem and leaves it unchanged.
	read func(r *reader, n configfile.Node, p place, into *F)
	// schema describes the accepted values, before variables are expanded.
	schema func() *jsonschema.Schema
	// fill sets nested fields, if any, to their defaults.
	fill func(into *F)
	// rows returns the nested keys, if any, for documents.
	rows func(prefix string) []row
}

// text is an unmodified string.
func text() form[string] {
	return form[string]{
		want: "a string",
		read: func(r *reader, n configfile.Node, p place, into *string) {
			if s, ok := r.text(n, p); ok {
				*into = s
			}
		},
		schema: schemaOf("string"),
	}
}

// text returns the value of a string node.
func (r *reader) text(n configfile.Node, p place) (string, bool) {
	if n.Kind == configfile.Text {
		return n.Text, true
	}
	hint := ""
	switch n.Kind {
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

// expanded is a string with variables replaced.
func expanded() form[string] {
	f := text()
	f.read = func(r *reader, n configfile.Node, p place, into *string) {
		if s, ok := r.text(n, p); ok {
			*into = r.expand(s, n.At, p)
		}
	}
	return f
}

// nonEmpty is an expanded string that must not become empty by its variables: it would
// count as absent.
func nonEmpty() form[string] {
	f := expanded()
	read := f.read
	f.read = func(r *reader, n configfile.Node, p place, into *string) {
		known := r.problemCount()
		read(r, n, p, into)
		if *into == "" && n.Text != "" && r.problemCount() == known && !r.formOnly {
			r.reject(n.At, p, "set them, or write ${NAME:-default}", "%q is empty when its variables are replaced", p.name)
		}
	}
	return f
}

// pathname is an expanded string that is the path of a file or folder.
func pathname() form[string] {
	f := expanded()
	read := f.read
	f.read = func(r *reader, n configfile.Node, p place, into *string) {
		read(r, n, p, into)
		if n.Kind != configfile.Text || n.Text == "" || r.formOnly {
			return
		}
		if problem, hint := notAPath(*into); problem != "" {
			r.reject(n.At, p, hint, "%q %s", p.name, problem)
			return
		}
		*into = r.resolve(*into)
	}
	return f
}

// notAPath reports why a text cannot be a path, or "".
func notAPath(text string) (problem, hint string) {
	switch {
	case strings.ContainsRune(text, 0):
		return "has a NUL in it", "remove it"
	case text == "~" || strings.HasPrefix(text, "~/"):
		return "begins with ~, which only a shell replaces", "write ${HOME}"
	}
	return "", ""
}

// auditFile is a pathname that must not be empty: a variable that was not set must not
// disable the record.
func auditFile() form[string] {
	f := text()
	f.read = func(r *reader, n configfile.Node, p place, into *string) {
		s, ok := r.text(n, p)
		if !ok {
			return
		}
		if s == "" {
			r.reject(n.At, p, `remove "audit" to have the entries in the log`, "%q is empty", p.name)
			return
		}
		known := r.problemCount()
		path := r.expandFilled(s, n.At, p)
		if path == "" || r.problemCount() > known {
			return
		}
		if problem, hint := notAPath(path); problem != "" {
			r.reject(n.At, p, hint, "%q %s", p.name, problem)
			return
		}
		*into = r.resolve(path)
		if problem, hint := checkAppendable(*into); problem != "" {
			r.reject(n.At, p, hint, "%q: %s", p.name, problem)
		}
	}
	return f
}

// secret is an expanded string that is not printed. An empty variable in it is reported, as
// it is most often one that was not filled in.
func secret() form[Secret] {
	return form[Secret]{
		want: "a string",
		read: func(r *reader, n configfile.Node, p place, into *Secret) {
			if s, ok := r.text(n, p); ok {
				r.literal(s, p)
				*into = NewSecret(r.expandFilled(s, n.At, p))
			}
		},
		schema: schemaOf("string"),
	}
}

// oneOf is one of several words.
func oneOf[S ~string](words ...S) form[S] {
	names := make([]string, len(words))
	for i, word := range words {
		names[i] = string(word)
	}
	return form[S]{
		want: strings.Join(names, ", "),
		read: func(r *reader, n configfile.Node, p place, into *S) {
			s, ok := r.text(n, p)
			switch {
			case !ok:
				// Words are case-sensitive, like everything in the file.
			case slices.Contains(names, s):
				*into = S(s)
			default:
				hint := spelling.DidYouMean(s, names)
				r.reject(n.At, p, hint, "%q must be one of %s", p.name, strings.Join(names, ", "))
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

// typeName is a type of server, also in the spellings of other programs.
func typeName() form[Type] {
	f := oneOf(TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE)
	read, schema := f.read, f.schema
	f.read = func(r *reader, n configfile.Node, p place, into *Type) {
		if n.Kind == configfile.Text && slices.Contains(streamableSpellings(), n.Text) {
			n.Text = string(TypeStreamableHTTP)
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

// isTypeName reports whether typeName accepts text.
func isTypeName(text string) bool {
	return slices.Contains([]Type{TypeStdio, TypeHTTP, TypeStreamableHTTP, TypeSSE}, Type(text)) || slices.Contains(streamableSpellings(), text)
}

// boolean is true or false.
func boolean() form[bool] {
	return form[bool]{
		want: "true or false",
		read: func(r *reader, n configfile.Node, p place, into *bool) {
			if n.Kind != configfile.Bool {
				r.wrongKind(n, p, "true or false", booleanHint(n))
				return
			}
			// YAML 1.2 and JSON have no other booleans.
			*into = n.Text == "true"
		},
		schema: schemaOf("boolean"),
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
func duration() form[time.Duration] {
	return quantity[time.Duration]("a duration", durationPattern, parseDuration, durationHint)
}

// size is a number of bytes with its unit, or "none".
func size() form[int64] {
	return quantity[int64]("a size", sizePattern, parseBytes, bytesHint)
}

// The patterns of durations and sizes in the schema.
const (
	durationPattern = `^(none|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern     = `^(none|[0-9]+(B|KiB|MiB|GiB))$`
)

// quantity is a number with a unit, written as a string. A missing unit is the most common
// mistake: MCP clients use seconds for some times and milliseconds for others, so no unit is
// assumed.
func quantity[F ~int64](want, pattern string, parse func(string) (F, error), hint func(string, error) string) form[F] {
	return form[F]{
		want: want,
		read: func(r *reader, n configfile.Node, p place, into *F) {
			if n.Kind != configfile.Text && n.Kind != configfile.Integer && n.Kind != configfile.Float {
				r.wrongKind(n, p, want, hint("", nil))
				return
			}
			// A word instead of 0 or -1, which a program may write by mistake.
			if n.Text == none {
				*into = noLimit
				return
			}
			// n.text has the source text of a number, so that the hint can repeat it.
			v, err := parse(n.Text)
			if err != nil {
				r.reject(n.At, p, hint(n.Text, err), "%q must be %s, but %.20q %v", p.name, want, n.Text, err)
				return
			}
			*into = v
		},
		schema: func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} },
	}
}

// count is a whole number above zero, or "none".
func count() form[int] {
	return form[int]{
		want: "a whole number",
		read: func(r *reader, n configfile.Node, p place, into *int) {
			if n.Kind == configfile.Text && n.Text == none {
				*into = noLimit
				return
			}
			v, err := strconv.Atoi(n.Text)
			// Zero is rejected: it could mean no capacity or no limit.
			if err != nil || v <= 0 || n.Kind != configfile.Integer {
				r.reject(n.At, p, countHint(n), "%q must be a whole number above zero", p.name)
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

// countHint returns the hint for a value that is not a count.
func countHint(n configfile.Node) string {
	// A quoted number is the only mistake that is hard to see.
	if v, err := strconv.Atoi(n.Text); err == nil && v > 0 {
		return "write it without quotes"
	}
	return fmt.Sprintf("write %q for no limit", none)
}

// optional is a form for which absence differs from the zero value.
func optional[F any](of form[F]) form[*F] {
	return form[*F]{
		want: of.want,
		read: func(r *reader, n configfile.Node, p place, into **F) {
			// Also for an invalid value, which is different from an absent one.
			var v F
			of.read(r, n, p, &v)
			*into = &v
		},
		schema: of.schema,
	}
}

// listOf is a list of values of one form.
func listOf[F any](of form[F]) form[[]F] {
	return form[[]F]{
		want: "a list of " + plural(of.want),
		read: func(r *reader, n configfile.Node, p place, into *[]F) {
			if n.Kind != configfile.List {
				r.wrongKind(n, p, "a list", listHint(n))
				return
			}
			// Invalid elements are kept, as paths have their indexes.
			list := make([]F, len(n.Items))
			for i, item := range n.Items {
				// Set before the element is read, as its problems need the position.
				r.positions[p.item(i).path] = item.At
				of.read(r, item, p.item(i), &list[i])
			}
			*into = list
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{Type: "array", Items: of.schema()}
		},
		rows: nestedRows(of, "[]"),
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
func mapOf[F any](of form[F]) form[map[string]F] {
	return form[map[string]F]{
		want: "a mapping of names to " + plural(of.want),
		read: func(r *reader, n configfile.Node, p place, into *map[string]F) {
			m := make(map[string]F, len(n.Members))
			r.eachMember(n, p, `write "NAME: VALUE" for each`, func(name string, n configfile.Node, p place) {
				var v F
				of.read(r, n, p, &v)
				// eachMember calls this once per key, for the first of repeated ones.
				m[name] = v
			})
			*into = m
		},
		schema: func() *jsonschema.Schema {
			return &jsonschema.Schema{Type: "object", AdditionalProperties: of.schema()}
		},
	}
}

// plural returns the plural of a form's want.
func plural(want string) string { return strings.TrimPrefix(want, "a ") + "s" }

// nestedRows returns the rows of a form inside another.
func nestedRows[F any](of form[F], suffix string) func(prefix string) []row {
	if of.rows == nil {
		return nil
	}
	return func(prefix string) []row { return of.rows(prefix + suffix) }
}

func schemaOf(kind string) func() *jsonschema.Schema {
	return func() *jsonschema.Schema { return &jsonschema.Schema{Type: kind} }
}
