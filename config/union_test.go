// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slip is one mistake: a change of rightConfig. The suffix "again" of a key means a repeated
// key.
type slip struct {
	name string
	set  map[string]any // by path; gone removes the value
}

const again = "#2"

// gone means no value.
type gone struct{}

// rightConfig is a valid config with all kinds of settings.
const rightConfig = `{
	"listen": "127.0.0.1:1",
	"auth": {"tokens": [{"principal": "me", "env": "TOKEN"}, {"principal": "you", "env": "OTHER"}]},
	"mcpServers": {
		"g": {"command": "x", "args": ["a"], "env": {"A": "b"}, "include": ["read_*"], "exclude": ["read_x"], "rename": {"read_a": "a"}},
		"h": {"url": "http://h/", "headers": {"X-A": "b"}}
	}
}`

// unionEnv is the environment of the test.
func unionEnv(name string) (string, bool) {
	value, ok := map[string]string{
		"TOKEN": "0123456789abcdef", "OTHER": "fedcba9876543210", "SPACED": "two words are none", "EMPTY": "",
	}[name]
	return value, ok
}

// lonelySlips returns mistakes that are reported for a file without others.
func lonelySlips() []slip {
	one := func(name, path string, value any) slip { return slip{name, map[string]any{path: value}} }
	g, h, token := "mcpServers.g.", "mcpServers.h.", "auth.tokens.0."
	return []slip{
		one("unknown key", "colour", 1),
		one("foreign key", "tls", 1),
		one("listen of another kind", "listen", 7),
		one("listen is none", "listen", "x"),
		one("listen needs a variable", "listen", "${NO}:7777"),
		one("path", "path", "mcp"),
		one("host", "allowedHosts.0", "a b"),
		one("host of another kind", "allowedHosts.1", 7),
		one("host needs a variable", "allowedHosts.2", "${NO}"),
		one("origin", "allowedOrigins.0", "x"),
		one("origin of another kind", "allowedOrigins.1", 7),
		one("unauthenticated and auth", "allowUnauthenticated", true),
		one("unknown key of auth", "auth.colour", 1),
		one("conflict", "conflict", "last"),
		one("limit", "limits.batch", 0),
		one("unknown limit", "limits.colour", 0),
		one("drain", "drain.delay", "5"),
		one("unknown key of audit", "audit", map[string]any{"file": "x", "colour": 1}),
		one("no record", "audit", map[string]any{}),
		one("no servers", "mcpServers", gone{}),
		one("servers of another kind", "mcpServers", 7),
		one("two keys of servers", "servers", map[string]any{"i": map[string]any{"command": "x"}}),
		one("two keys of servers, one wrong", "servers", map[string]any{"i": map[string]any{"timeout": 7}}),

		one("token without principal", token+"principal", gone{}),
		one("principal of another kind", token+"principal", 7),
		one("principal with control", token+"principal", "a\n"),
		one("token nowhere", token+"env", gone{}),
		one("token of another kind", token+"env", 7),
		one("token not set", token+"env", "NO"),
		one("token empty", token+"env", "EMPTY"),
		one("token of two words", token+"env", "SPACED"),
		one("token of somebody else", token+"env", "OTHER"),
		one("token in a variable and a file", token+"file", "x"),
		one("unknown key of token", token+"colour", "x"),
		one("tokens of another kind", "auth.tokens", 7),
		one("one token of another kind", "auth.tokens.0", 7),

		one("unknown key of server", g+"colour", 1),
		one("misspelt key of server", g+"exclud", []any{}),
		one("foreign key of server", g+"networkTimeout", "x"),
		one("file of variables that is not there", g+"envFile", "nowhere/.env"),
		one("file of variables of another kind", g+"envFile", 7),
		one("enabled of another kind", g+"enabled", 7),
		one("a program and an address", g+"url", "http://x/"),
		one("a program and no address", g+"url", 7),
		one("a program and an address by variable", g+"url", "${NO}"),
		one("neither program nor address", g+"command", gone{}),
		{"program misspelt", map[string]any{g + "command": gone{}, g + "comand": "x"}},
		one("program of another kind", g+"command", 7),
		one("program by variable", g+"command", "${NO}"),
		one("program in a home", g+"command", "~/x"),
		one("type of another kind", g+"type", 7),
		one("type unknown", g+"type", "grpc"),
		one("type of an address", g+"type", "http"),
		one("argument by variable", g+"args.0", "${NO}"),
		one("argument of another kind", g+"args.1", 7),
		one("argument with NUL", g+"args.2", "a\x00"),
		one("env of another kind", g+"env.A", 7),
		one("env by variable", g+"env.B", "${NO}"),
		one("env with NUL", g+"env.C", "\x00"),
		one("env by another name", g+"env.a=b", "x"),
		one("env by another name and variable", g+"env.c=d", "${NO}x"),
		one("folder by variable", g+"cwd", "${NO}/x"),
		one("header of a program", g+"headers.X-B", "x"),
		one("header of a program by variable", g+"headers.X-C", "${NO}"),
		one("headers of another kind", g+"headers", 7),
		one("prefix of another kind", g+"prefix", 3),
		one("prefix", g+"prefix", "a b"),
		one("prefix of another", g+"prefix", "h__"),
		one("timeout", g+"timeout", "30"),
		one("era", g+"era", "stone"),
		one("share", g+"share", "maybe"),
		one("include of another kind", g+"include", 7),
		one("included and excluded", g+"include.1", "read_x"),
		one("include item of another kind", g+"include.2", 7),
		one("include empty", g+"include.3", ""),
		one("include by shell", g+"include.4", "read_[a]"),
		one("exclude everything", g+"exclude.1", "*"),
		one("exclude item of another kind", g+"exclude.2", 7),
		one("exclude what is renamed", g+"exclude.3", "read_a"),
		one("rename of another kind", g+"rename.read_b", 7),
		one("another rename of another kind", g+"rename.read_c", 7),
		one("rename to no name", g+"rename.read_d", "a b"),
		one("rename to one name", g+"rename.read_e", "a"),
		one("rename what is excluded", g+"rename.read_x", "b"),
		one("rename what is not included", g+"rename.x", "c"),
		one("a key twice", g+"command"+again, "y"),
		one("server twice", "mcpServers.g"+again, map[string]any{"command": "y"}),
		one("server by another name", "mcpServers.a b", map[string]any{"command": "y"}),
		one("server of another kind", "mcpServers.k", 7),
		one("server by another name and kind", "mcpServers.c d", map[string]any{"command": 7}),

		one("address of another kind", h+"url", 7),
		one("address by variable", h+"url", "http://${NO}/"),
		one("address is none", h+"url", "ftp://x"),
		one("env of an address", h+"env.A", "x"),
		one("env of an address by variable", h+"env.B", "${NO}"),
		one("args of an address", h+"args", []any{"a"}),
		one("folder of an address", h+"cwd", "x"),
		one("folder of an address by variable", h+"cwd", "${NO}"),
		one("header twice", h+"headers.x-a", "b"),
		one("header reserved", h+"headers.Host", "x"),
		one("header by another name", h+"headers.a b", "x"),
		one("header by variable", h+"headers.X-D", "${NO}"),
		one("header with a line break", h+"headers.X-E", "a\nb"),
		one("header by another name and variable", h+"headers.c d", "${NO}"),
		one("header by another name, of two lines", h+"headers.e f", "a\nb"),
		one("type of a program", h+"type", "stdio"),
		{"era of another type", map[string]any{h + "type": "sse", h + "era": "modern"}},
	}
}

// overlap reports whether two mistakes change the same value, and so exclude each other.
func overlap(a, b slip) bool {
	for one := range a.set {
		for other := range b.set {
			one, other := strings.TrimSuffix(one, again), strings.TrimSuffix(other, again)
			if one == other || strings.HasPrefix(one, other+".") || strings.HasPrefix(other, one+".") {
				return true
			}
		}
	}
	return false
}

// mistaken returns rightConfig with some mistakes.
func mistaken(t *testing.T, slips ...slip) string {
	t.Helper()
	var root any
	if err := json.Unmarshal([]byte(rightConfig), &root); err != nil {
		t.Fatal(err)
	}
	for _, s := range slips {
		for _, path := range slices.Sorted(maps.Keys(s.set)) {
			root = put(root, "", strings.Split(path, "."), s.set[path])
		}
	}
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), again+`"`, `"`)
}

// put sets the value at a path of a tree, and creates missing parents. Missing elements of a
// list are filled with valid ones.
func put(tree any, in string, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		list, _ := tree.([]any)
		for len(list) <= i {
			list = append(list, filler(in)+strconv.Itoa(len(list)))
		}
		list[i] = put(list[i], "", path[1:], value)
		return list
	}
	mapping, _ := tree.(map[string]any)
	if mapping == nil {
		mapping = make(map[string]any)
	}
	if _, out := value.(gone); out && len(path) == 1 {
		delete(mapping, path[0])
		return mapping
	}
	mapping[path[0]] = put(mapping[path[0]], path[0], path[1:], value)
	return mapping
}

// filler returns a prefix of the valid elements for a list.
func filler(list string) string {
	switch list {
	case "allowedOrigins":
		return "http://z"
	case "include":
		return "read_z"
	default:
		return list
	}
}

// excuse is the reason why a pair of mistakes is reported differently than each alone.
type excuse struct{ why, one, other string } // names of slips, or prefixes of them

func (e excuse) is(a, b string) bool {
	fits := func(a, b string) bool { return strings.HasPrefix(a, e.one) && strings.HasPrefix(b, e.other) }
	return fits(a, b) || fits(b, a)
}

// lonelyExcuses returns all such pairs. The end of the test checks that each is needed.
func lonelyExcuses() []excuse {
	const (
		mends  = "each takes away what is wrong with the other"
		choice = "which of two is meant is not known, and what follows for one of them need not hold"
		list   = "the mistake is one against what could not be read"
	)
	return []excuse{
		{mends, "no servers", "two keys of servers"},
		{mends, "neither program nor address", "a program and"},
		{mends, "token nowhere", "token in a variable and a file"},
		{choice, "token in a variable and a file", "token not set"},
		{choice, "token in a variable and a file", "token empty"},
		{choice, "token in a variable and a file", "token of two words"},
		{choice, "token in a variable and a file", "token of somebody else"},
		{choice, "type of an address", "a program and"},
		{choice, "type of an address", "neither program nor address"},
		{choice, "type of an address", "header"},
		{choice, "type of a program", "env of an address"},
		{choice, "type of a program", "args of an address"},
		{choice, "type of a program", "folder of an address"},
		{choice, "header", "a program and"},
		{choice, "header", "neither program nor address"},
		{list, "two keys of servers, one wrong", "servers of another kind"},
		{list, "rename what is not included", "include of another kind"},
		{list, "rename what is not included", "include item of another kind"},
	}
}

// problemsOf returns the problems of a config, without positions.
func problemsOf(text string) map[string]bool {
	_, err := Parse("x.json", []byte(text), unionEnv)
	problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
	all := make(map[string]bool)
	for _, p := range problems {
		all[p.Path+": "+p.Message] = true
	}
	return all
}

// TestNoProblemHidesAnother checks that a file with several mistakes has exactly the problems
// of each of them. Any two compatible mistakes occur together in some file.
func TestNoProblemHidesAnother(t *testing.T) {
	if problems := problemsOf(rightConfig); len(problems) > 0 {
		t.Fatalf("the config is not right: %v", problems)
	}
	slips, excuses := lonelySlips(), lonelyExcuses()
	alone := make([]map[string]bool, len(slips))
	for i, s := range slips {
		if alone[i] = problemsOf(mistaken(t, s)); len(alone[i]) == 0 {
			t.Errorf("%s: nothing is told", s.name)
		}
	}
	together := func(group ...int) (string, map[string]bool, map[string]bool) {
		want, names, chosen := map[string]bool{}, []string{}, []slip{}
		for _, i := range group {
			maps.Copy(want, alone[i])
			names, chosen = append(names, slips[i].name), append(chosen, slips[i])
		}
		return strings.Join(names, ", "), problemsOf(mistaken(t, chosen...)), want
	}
	used := make(map[int]bool)
	apart := func(i, k int) bool {
		if overlap(slips[i], slips[k]) {
			return true
		}
		x := slices.IndexFunc(excuses, func(x excuse) bool { return x.is(slips[i].name, slips[k].name) })
		if x >= 0 && !used[x] {
			_, got, want := together(i, k)
			used[x] = !maps.Equal(got, want)
		}
		return x >= 0
	}
	for _, group := range gather(len(slips), apart) {
		if names, got, want := together(group...); !maps.Equal(got, want) {
			t.Errorf("%s (-got +want):\n%s", names, cmp.Diff(got, want))
		}
	}
	for i, x := range excuses {
		if !used[i] {
			t.Errorf("%q and %q are excused, and need not be", x.one, x.other)
		}
	}
}

// gather returns groups of the first n numbers. Two numbers for which apart is true are never
// in the same group; any others are together in at least one.
func gather(n int, apart func(i, k int) bool) [][]int {
	parted, met := make(map[[2]int]bool), make(map[[2]int]bool)
	for i := range n {
		for k := range i {
			parted[[2]int{k, i}] = apart(i, k)
		}
	}
	pair := func(i, k int) [2]int { return [2]int{min(i, k), max(i, k)} }
	var groups [][]int
	for i := range n {
		for k := range i {
			if parted[pair(i, k)] || met[pair(i, k)] {
				continue
			}
			group := []int{k, i}
			for m := range n {
				free := !slices.ContainsFunc(group, func(o int) bool { return o == m || parted[pair(o, m)] })
				if free && slices.ContainsFunc(group, func(o int) bool { return !met[pair(o, m)] }) {
					group = append(group, m)
				}
			}
			for x, a := range group {
				for _, b := range group[:x] {
					met[pair(a, b)] = true
				}
			}
			groups = append(groups, group)
		}
	}
	return groups
}
