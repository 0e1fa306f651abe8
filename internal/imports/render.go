// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Render returns a configuration file with the servers, in YAML.
func Render(servers []Server) []byte {
	var b strings.Builder
	b.WriteString("# Imported by signalbox import.\nmcpServers:")
	if len(servers) == 0 {
		b.WriteString(" {}")
	}
	b.WriteString("\n")
	for i := range servers {
		b.WriteString("  " + scalar(servers[i].Name) + ":\n" + indent(servers[i].Entry(), "    "))
	}
	return []byte(b.String())
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

// Entry returns the server's entry as a YAML mapping, without its name. It ends with a line
// break.
func (s *Server) Entry() string {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + ": " + value + "\n") }
	text := func(key, value string) {
		if value != "" {
			line(key, scalar(value))
		}
	}
	list := func(key string, values []string) {
		if len(values) > 0 {
			line(key, "["+strings.Join(each(values, scalar), ", ")+"]")
		}
	}
	pairs := func(key string, values []Pair) {
		if len(values) == 0 {
			return
		}
		b.WriteString(key + ":\n")
		for _, p := range values {
			b.WriteString("  " + scalar(p.Name) + ": " + scalar(p.Value) + "\n")
		}
	}
	text("type", s.Type)
	text("command", s.Command)
	list("args", s.Args)
	pairs("env", s.Env)
	text("envFile", s.EnvFile)
	text("cwd", s.Cwd)
	text("url", s.URL)
	pairs("headers", s.Headers)
	if s.OAuth != nil {
		b.WriteString("oauth:\n")
		for _, m := range s.OAuth.Members() {
			b.WriteString("  ")
			switch value := m.Value.(type) {
			case string:
				text(m.Key, value)
			case int:
				line(m.Key, strconv.Itoa(value))
			case []string:
				list(m.Key, value)
			}
		}
	}
	list("include", s.Include)
	list("exclude", s.Exclude)
	if s.Timeout > 0 {
		line("timeout", FormatTimeout(s.Timeout))
	}
	if s.Disabled {
		line("disabled", "true")
	}
	return b.String()
}

func each(values []string, f func(string) string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = f(v)
	}
	return out
}

// plainScalar matches texts that need no quotes in YAML, in a block or in a list. What YAML
// could read as something else is excluded by isWord.
var plainScalar = regexp.MustCompile(`^[A-Za-z_./-][A-Za-z0-9_./+@=-]*$`)

// scalar returns a text as a scalar of YAML.
func scalar(text string) string {
	if plainScalar.MatchString(text) && !isReserved(text) {
		return text
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""` // not reached: a string can always be encoded
	}
	// JSON escapes these for HTML; YAML has no need of it.
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(quoted))
}

// isReserved reports whether a plain scalar could be a number, a boolean, null or an
// indicator, in any version of YAML.
func isReserved(text string) bool {
	words := []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan"}
	lower := strings.ToLower(text)
	if slices.Contains(words, lower) || strings.Trim(text, "-.") == "" || strings.HasPrefix(lower, ".inf") || strings.HasPrefix(lower, ".nan") {
		return true
	}
	// -1, .5, -.inf
	return strings.ContainsAny(strings.TrimLeft(text, "-.")[:1], "0123456789") && strings.ContainsAny(text[:1], "-.") || strings.HasPrefix(lower, "-.inf")
}

// FormatTimeout returns a duration without parts that are zero, such as 5m for 5m0s.
func FormatTimeout(d time.Duration) string {
	text := d.String()
	if trimmed, ok := strings.CutSuffix(text, "m0s"); ok {
		text = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(text, "h0m"); ok {
		text = trimmed + "h"
	}
	return text
}
