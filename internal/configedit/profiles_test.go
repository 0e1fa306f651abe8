// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// randomProfiles returns a file with a server "files", two others, and profiles that name
// them in all forms.
func randomProfiles(r *rand.Rand) (f File, text string) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	f.Name = pick("a.yaml", "a.json")
	isJSON := f.Name == "a.json"
	quote := func(s string) string {
		if isJSON {
			return `"` + s + `"`
		}
		return pick("", "'", `"`)
	}
	quoted := func(s string) string {
		if isJSON {
			return quote(s)
		}
		q := quote(s)
		return q + s + q
	}
	comment := func() string {
		if isJSON {
			return ""
		}
		return pick("", "", " # files")
	}
	list := func(names ...string) string {
		if isJSON || r.IntN(2) == 0 {
			gap := pick("", " ", "\n      ")
			for i := range names {
				names[i] = quoted(names[i])
			}
			return "[" + gap + strings.Join(names, ","+pick(" ", "\n      ")) + gap + "]\n"
		}
		var b strings.Builder
		b.WriteString(comment() + "\n")
		indent := pick("    ", "      ")
		for _, name := range names {
			if r.IntN(4) == 0 {
				b.WriteString(indent + "# files\n")
			}
			b.WriteString(indent + "- " + quoted(name) + comment() + "\n")
		}
		return b.String()
	}
	servers := []string{"files", "files2", "x"}
	r.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	servers = slices.DeleteFunc(servers, func(s string) bool { return s == "x" && r.IntN(2) == 0 })
	patterns := []string{"files__read", "files2__a*", "x*files__b"}
	if isJSON {
		return f, fmt.Sprintf("{%q: {%q: {}, %q: {}, %q: {}},\n %q: {\n  %q: {%q: %s, %q: %s}}}\n",
			"mcpServers", "files", "files2", "x", "profiles", "p", "servers", list(servers...), "exclude", list(patterns...))
	}
	return f, "mcpServers:\n  files: {}\n  files2: {}\n  x: {}\nprofiles:\n  p:\n    servers: " + list(servers...) + "    exclude: " + list(patterns...) + "  q: {}\n"
}

// TestProfilesThereAndBack checks that a renamed server is another one in profiles, too, and
// that a removed one is in none, for lists in all forms.
func TestProfilesThereAndBack(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(500) {
		f, text := randomProfiles(rand.New(rand.NewPCG(seed, 2)))
		text = strings.ReplaceAll(text, ": \n", ":\n")
		f.Text = []byte(text)
		lists := func(changed []byte) string {
			root, err := configfile.Parse(changed, configfile.IsJSON(f.Name))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, changed)
			}
			profile, _ := get(root, []string{"profiles", "p"})
			var all []string
			for _, m := range profile.Members {
				for _, item := range m.Value.Items {
					all = append(all, item.Text)
				}
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		before := lists(f.Text)
		renamed, err := f.Rename("files", "docs")
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		want := strings.Fields(before)
		for i, word := range want {
			if word == "files" || strings.HasPrefix(word, "files__") {
				want[i] = "docs" + strings.TrimPrefix(word, "files")
			}
		}
		slices.Sort(want)
		if got := lists(renamed); got != strings.Join(want, " ") {
			t.Fatalf("seed %d: renamed to %s\n%s", seed, got, renamed)
		}
		back, err := File{Name: f.Name, Text: renamed}.Rename("docs", "files")
		if err != nil || string(back) != text {
			t.Fatalf("seed %d: %v\n%s\n---\n%s", seed, err, text, back)
		}
		removed, err := f.Remove("files")
		if err != nil {
			refused++
			continue
		}
		want = slices.DeleteFunc(strings.Fields(before), func(word string) bool { return word == "files" })
		if got := lists(removed); got != strings.Join(want, " ") {
			t.Fatalf("seed %d: removed, and left %s\n%s", seed, got, removed)
		}
		if n, left := strings.Count(text, "# files"), strings.Count(string(removed), "# files"); left < n-1 {
			t.Fatalf("seed %d: of %d comments %d are left\n%s\n---\n%s", seed, n, left, text, removed)
		}
	}
	if refused > 0 {
		t.Errorf("%d files are too hard", refused)
	}
}
