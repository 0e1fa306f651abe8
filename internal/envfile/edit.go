// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package envfile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// ErrMistakes is the error of a change of a text that has mistakes.
var ErrMistakes = errors.New("the file has mistakes")

// ErrValue is the error of a value that the format cannot express: one with a NUL, or with
// quotes of all kinds.
var ErrValue = errors.New("the value cannot be written in this format")

// Set returns the text with a variable set. If the variable is there, its value is replaced
// on its first line and its other lines are removed; else it is added as the last line. All
// other bytes stay as they are. name must be the name of a variable.
func Set(text, name, value string) (string, error) {
	encoded, err := encode(value)
	if err != nil {
		return "", err
	}
	return change(text, name, &encoded, value)
}

// Remove returns the text without the lines of a variable. All other bytes stay as they are.
func Remove(text, name string) (string, error) { return change(text, name, nil, "") }

// change replaces a variable's value by another one, or removes the variable if encoded is
// nil.
func change(text, name string, encoded *string, value string) (string, error) {
	plain := normalized(text)
	vars, mistakes := parse(plain)
	if len(mistakes) > 0 {
		return "", ErrMistakes
	}
	lines := rawLines(strings.TrimPrefix(text, mark))
	lineBreak := "\n"
	if len(lines) > 0 {
		lineBreak = cmp.Or(lineEnding(lines[0]), lineBreak)
	}
	var out strings.Builder
	out.WriteString(text[:len(text)-len(strings.TrimPrefix(text, mark))])
	next := 0 // the first line that has not been copied
	done := encoded == nil
	for _, v := range vars {
		if v.Name != name {
			continue
		}
		first := v.Line - 1
		count := max(1, len(rawLines(plain[v.start:v.end])))
		out.WriteString(strings.Join(lines[next:first], ""))
		next = first + count
		if done {
			continue
		}
		done = true
		before, after := plain[v.start:v.valueStart], strings.TrimSuffix(plain[v.valueEnd:v.end], "\n")
		if strings.HasPrefix(after, "#") {
			after = " " + after // else it would be a part of the value
		}
		out.WriteString(before + *encoded + after + lineEnding(lines[next-1]))
	}
	out.WriteString(strings.Join(lines[next:], ""))
	changed := out.String()
	if !done {
		if changed != "" && changed != mark && !strings.HasSuffix(changed, "\n") && !strings.HasSuffix(changed, "\r") {
			changed += lineBreak
		}
		changed += name + "=" + *encoded + lineBreak
	}
	if !isChanged(vars, changed, name, encoded != nil, value) {
		return "", ErrValue
	}
	return changed, nil
}

// isChanged reports whether a text has the other variables as before, and the one with a
// name only as it is meant to be.
func isChanged(before []Variable, text, name string, set bool, value string) bool {
	after, mistakes := Parse(text)
	others := func(all []Variable) []Variable {
		var rest []Variable
		for _, v := range all {
			if v.Name != name {
				rest = append(rest, Variable{Name: v.Name, Value: v.Value})
			}
		}
		return rest
	}
	one := slices.IndexFunc(after, func(v Variable) bool { return v.Name == name })
	return len(mistakes) == 0 && slices.Equal(others(before), others(after)) &&
		set == (one >= 0) && (!set || after[one].Value == value)
}

// rawLines splits a text after its line breaks, which are those of any system.
func rawLines(text string) []string {
	var lines []string
	for text != "" {
		end := strings.IndexAny(text, "\r\n")
		switch {
		case end < 0:
			end = len(text)
		case strings.HasPrefix(text[end:], "\r\n"):
			end += 2
		default:
			end++
		}
		lines = append(lines, text[:end])
		text = text[end:]
	}
	return lines
}

// lineEnding returns the line break of a line.
func lineEnding(line string) string { return line[len(strings.TrimRight(line, "\r\n")):] }

// encode returns a value as it is written in a file: without quotes if that is possible.
func encode(value string) (string, error) {
	if strings.ContainsRune(value, 0) {
		return "", ErrValue
	}
	escaped := strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(value)
	for _, form := range []string{value, "'" + value + "'", "`" + value + "`", `"` + escaped + `"`} {
		vars, mistakes := Parse("A=" + form + "\nB=1\n")
		if len(mistakes) == 0 && len(vars) == 2 && vars[0].Value == value {
			return form, nil
		}
	}
	return "", ErrValue
}
