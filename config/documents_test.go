// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomDocument returns a random config with some of all keys. Values are valid for their
// keys or, if wrong is not zero, sometimes of another kind; the paths of those are returned.
func randomDocument(r *rand.Rand, wrong int) (text string, bad []string) {
	sections := map[string][]string{}
	var order []string
	for _, row := range allRows() {
		value, isWrong := pickValue(r, row, wrong)
		if value == "" {
			continue
		}
		section, key, below := strings.Cut(row.path, ".")
		if !below {
			section, key = "", row.path
		}
		if _, known := sections[section]; !known {
			order = append(order, section)
		}
		sections[section] = append(sections[section], fmt.Sprintf("%q: %s", strings.TrimPrefix(key, "NAME."), value))
		if isWrong {
			bad = append(bad, strings.NewReplacer(".NAME.", ".a.", "[].", "[0].").Replace(row.path))
		}
	}
	members := slices.Clone(sections[""])
	hasServer := false
	for _, section := range order {
		inside := strings.Join(sections[section], ", ")
		switch section {
		case "":
		case serversKey:
			hasServer = true
			members = append(members, fmt.Sprintf(`"mcpServers": {"a": {"command": "x", %s}}`, inside))
		case "quotas[]":
			for key, value := range map[string]string{"per": `"all"`, "calls": `"1/1s"`} { // both are required
				if !strings.Contains(inside, strconv.Quote(key)) {
					inside += fmt.Sprintf(", %q: %s", key, value)
				}
			}
			members = append(members, fmt.Sprintf(`"quotas": [{%s}]`, inside))
		case profilesKey:
			members = append(members, fmt.Sprintf(`"profiles": {"a": {%s}}`, inside))
		default:
			members = append(members, fmt.Sprintf("%q: {%s}", section, inside))
		}
	}
	if !hasServer {
		members = append(members, `"mcpServers": {"a": {"command": "x"}}`)
	}
	r.Shuffle(len(members), func(i, k int) { members[i], members[k] = members[k], members[i] })
	return "{" + strings.Join(members, ", ") + "}", bad
}

// pickValue returns a value for a key, or none.
func pickValue(r *rand.Rand, row row, wrong int) (value string, isWrong bool) {
	switch {
	case strings.HasPrefix(row.want, "a mapping") && row.want != "a mapping of names to strings",
		strings.Contains(row.path, "tokens"), strings.Contains(row.path, "issuers"), strings.HasPrefix(row.path, "auth.certificates"), strings.HasPrefix(row.path, "auth.proxy"), strings.HasPrefix(row.path, "auth.browser"), strings.HasPrefix(row.path, "tls"), strings.Contains(row.path, ".oauth"), strings.Contains(row.path, ".headersHelper"), strings.HasPrefix(row.path, "mcpServers.NAME.results"), row.path == "quotas", strings.HasPrefix(row.path, "policy."), strings.HasPrefix(row.path, "filters[]."), row.path == "mcpServers.NAME.command", row.path == "audit.file", row.path == "profiles.NAME.names", row.path == "profiles.NAME.extensions",
		r.IntN(3) > 0:
		return "", false // implied by the keys below it, or depends on other keys
	}
	if wrong > 0 && r.IntN(wrong) == 0 {
		for k, value := range wrongKinds() {
			if !takes(row.want, k) {
				return value, true
			}
		}
	}
	values, known := special()[row.path]
	if !known {
		values = rightValues()[row.want]
	}
	if row.path == "mcpServers.NAME.type" || row.path == "mcpServers.NAME.disabled" || len(values) == 0 {
		return "", false // they determine which other keys are permitted
	}
	return values[r.IntN(len(values))], false
}

// TestRandomDocuments checks that keys do not interfere: a config of valid values is valid,
// for the parser and the schema, and in a config with some invalid values each of them is
// reported.
func TestRandomDocuments(t *testing.T) {
	schema := resolvedSchema(t)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 9))
		text, bad := randomDocument(r, int(seed%3)*4)
		c, err := Parse("x.json", []byte(text), nil)
		if taken := schemaTakes(t, schema, text); taken != (len(bad) == 0) {
			t.Errorf("seed %d: the schema takes it: %t, with %q wrong: %s", seed, taken, bad, text)
		}
		if len(bad) == 0 {
			checkSound(t, text, c, err)
			continue
		}
		problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
		for _, path := range bad {
			if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == path }) {
				t.Errorf("seed %d: nothing is said of %s: %s\n%v", seed, path, text, err)
			}
		}
		if len(problems) < len(bad) {
			t.Errorf("seed %d: %d problems, and %d values are wrong: %s", seed, len(problems), len(bad), text)
		}
	}
}

// checkSound checks that a config is valid, and parsed to the same result under both names.
func checkSound(t *testing.T, text string, c *Config, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	if err := c.Effective().Validate(); err != nil {
		t.Errorf("%s: read, and not valid: %v", text, err)
	}
	asYAML, err := Parse("x.yaml", []byte(text), nil)
	if err != nil {
		t.Errorf("%s as YAML: %v", text, err)
		return
	}
	for i := range asYAML.Notes {
		asYAML.Notes[i].File = "x.json"
	}
	asYAML.source.file = "x.json"
	if diff := cmp.Diff(asYAML, c, cmp.AllowUnexported(Config{}, source{})); diff != "" {
		t.Errorf("%s (-YAML +JSON):\n%s", text, diff)
	}
}

// TestParseConcurrently checks that calls of Parse share no state, including defaults and
// validation.
func TestParseConcurrently(t *testing.T) {
	var wg sync.WaitGroup // waited for below; each ends after its files
	for seed := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(10) {
				text, _ := randomDocument(rand.New(rand.NewPCG(i, 10)), 0)
				c, err := Parse("x.json", []byte(text), nil)
				if err != nil || c.Effective().Validate() != nil {
					t.Errorf("reader %d, file %d: %v", seed, i, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestOneConfigForMany checks that a Config can be read concurrently without a lock.
func TestOneConfigForMany(t *testing.T) {
	c, err := Parse("x.yaml", []byte("mcpServers: {a: {command: x, include: [\"r*\"], env: {K: v}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup // waited for below; each ends after one read
	for range 8 {
		wg.Go(func() {
			s := &c.Effective().Servers[0]
			if !s.Offers("read") || s.Offers("write") || s.Env["K"].Reveal() != "v" || s.Era != eraAuto || c.Validate() != nil {
				t.Errorf("%+v is read otherwise", s)
			}
		})
	}
	wg.Wait()
}

// codeBlocks returns the code blocks of the config's document by language.
func codeBlocks(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	blocks := make(map[string][]string)
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 { // every other part is between two markers
			language, block, _ := strings.Cut(part, "\n")
			blocks[language] = append(blocks[language], block)
		}
	}
	return blocks
}

// TestDocumentedConfigsAreRead checks that the configs of the document are valid.
func TestDocumentedConfigsAreRead(t *testing.T) {
	blocks := codeBlocks(t)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("secrets", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("secrets", "alice"), []byte("sesame-of-alice-sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return "sesame-in-" + name, strings.HasSuffix(name, "_TOKEN") }
	for _, language := range []string{"json", "yaml"} {
		if len(blocks[language]) == 0 {
			t.Errorf("the document shows no %s", language)
		}
		for _, block := range blocks[language] {
			c, err := Parse("signalbox."+language, []byte(block), env)
			if err != nil || len(c.Notes) > 0 || len(c.Servers) == 0 {
				t.Errorf("%s\n%v", block, err)
			}
		}
	}
}

// TestDocumentedProblemsAreReported checks that the problems in the document are those of its
// example, literally.
func TestDocumentedProblemsAreReported(t *testing.T) {
	text := `mcpServers:
  files:
    # the files of the team
    comand: npx
    args: [-y, some-server]
    timeout: 30
  tickets:
    url: https://tickets.example.com/mcp
    headers: {Authorization: "Bearer ${TICKETS_TOKEN}"}
`
	_, err := Parse("signalbox.yaml", []byte(text), nil)
	shown := codeBlocks(t)[""]
	if err == nil || len(shown) != 1 || shown[0] != err.Error()+"\n" {
		t.Errorf("the document shows\n%q\nand it is\n%v", shown, err)
	}
}

// TestDocumentNamesEveryExpandedKey checks that the document's list of keys with variables is
// complete and has no other keys.
func TestDocumentNamesEveryExpandedKey(t *testing.T) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	_, sentence, _ := strings.Cut(string(text), "They are replaced in ")
	sentence, _, _ = strings.Cut(sentence, ", and nowhere else")
	named := make(map[string]bool)
	for i, part := range strings.Split(sentence, "`") {
		if i%2 == 1 {
			named[part] = true
		}
	}
	expanded := make(map[string]bool)
	for _, row := range allRows() {
		key := row.path[strings.LastIndexByte(row.path, '.')+1:]
		for _, value := range []string{`"${SOME_VARIABLE}"`, `["${SOME_VARIABLE}"]`, `{"x": "${SOME_VARIABLE}"}`} {
			_, err := Parse("x.json", []byte(document(row.path, value)), nil)
			if err != nil && strings.Contains(err.Error(), "needs the environment variable SOME_VARIABLE") {
				expanded[key] = true
			}
		}
	}
	if diff := cmp.Diff(named, expanded); diff != "" {
		t.Errorf("keys with variables (-document +reader):\n%s", diff)
	}
}

// TestFindTakesTheFirst tries every set of the files that Find looks for, among others.
func TestFindTakesTheFirst(t *testing.T) {
	known := []string{"signalbox.yaml", "signalbox.json", ".mcp.json", "mcp.json"}
	for set := range 1 << len(known) {
		dir := t.TempDir()
		for _, other := range []string{"signalbox.yml", "mcp.jsonc", "Signalbox.yaml.bak", "signalbox"} {
			if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := ""
		for i, name := range known {
			if set&(1<<i) == 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = filepath.Join(dir, name)
			}
		}
		if got, ok := Find(dir); got != want || ok != (want != "") {
			t.Errorf("set %04b: Find = %q, %t, want %q", set, got, ok, want)
		}
	}
	if got, ok := Find(filepath.Join(t.TempDir(), "none")); ok {
		t.Errorf("a folder that is not there has %s", got)
	}
}
