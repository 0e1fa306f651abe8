// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^(TestSchemaIsCurrent|TestDocumentIsCurrent)$ . -update

// The committed files that are generated from the tables of keys.
const (
	schemaFile   = "../schema/config.schema.json"
	documentFile = "../docs/config.md"
)

// current compares a committed file with its generated content, or writes it.
func current(t *testing.T, path string, want []byte) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("%s is stale, run go generate ./config (-got +want):\n%s", path, diff)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(Schema()); err != nil {
		t.Fatal(err)
	}
	current(t, schemaFile, out.Bytes())
}

// TestDocumentIsCurrent generates the tables between the markers of the document.
func TestDocumentIsCurrent(t *testing.T) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	rest := string(text)
	tables := documentTables()
	for {
		before, after, found := strings.Cut(rest, "<!-- begin ")
		out.WriteString(before)
		if !found {
			break
		}
		name, after, _ := strings.Cut(after, " -->\n")
		_, rest, found = strings.Cut(after, "<!-- end -->\n")
		if table := tables[name]; table == "" || !found {
			t.Fatalf("the marker %q has no table, or no end", name)
		}
		fmt.Fprintf(&out, "<!-- begin %s -->\n%s<!-- end -->\n", name, tables[name])
		delete(tables, name)
	}
	for name := range tables {
		t.Errorf("%s has no place for the table %q", documentFile, name)
	}
	current(t, documentFile, []byte(out.String()))
}

// documentTables returns the tables by the names of their markers: one for the keys of the
// root, and one for the keys below each mapping.
func documentTables() map[string]string {
	tables := make(map[string]string)
	for _, row := range object(configKeys(), nil).rows("") {
		table, name := "config", row.path
		if section, below, found := strings.Cut(row.path, "."); found {
			table, name = strings.TrimSuffix(section, "[]"), strings.TrimPrefix(below, "NAME.")
		}
		if tables[table] == "" {
			tables[table] = "| key | value | default | meaning |\n|---|---|---|---|\n"
		}
		def := ""
		if row.def != "" {
			def = "`" + row.def + "`"
		}
		tables[table] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, row.want, def, row.doc)
	}
	tables["other programs"] = foreignTable()
	return tables
}

func foreignTable() string {
	table := "| key of a server | what happens |\n|---|---|\n"
	for _, other := range foreignServerKeys() {
		what := "refused: " + other.about
		if other.passed {
			what = "ignored: " + other.about
		}
		if own := keyAliases()[other.name]; own != "" {
			what = fmt.Sprintf("read as %q; refused where the entry has that, too, with another value", own)
		}
		if other.name == "enabled" {
			what = `read as the opposite of "disabled"; refused where the entry has that, too, and contradicts it`
		}
		table += fmt.Sprintf("| `%s` | %s |\n", other.name, what)
	}
	return table
}

// TestKeysAreFields checks that each key has a field with its name, and each field a key.
func TestKeysAreFields(t *testing.T) {
	sameNames(t, configKeys(), Config{})
	sameNames(t, serverKeys(), Backend{})
	sameNames(t, oauthKeys(), OAuth{})
	sameNames(t, helperKeys(), HeadersHelper{})
	sameNames(t, profileKeys(), Profile{})
	sameNames(t, authKeys(), Auth{})
	sameNames(t, tlsKeys(), TLS{})
	sameNames(t, introspectKeys(), Introspect{})
	sameNames(t, authorizationServerKeys(), AuthorizationServer{})
	sameNames(t, certificatesKeys(), Certificates{})
	sameNames(t, proxyKeys(), AuthProxy{})
	sameNames(t, browserKeys(), Browser{})
	sameNames(t, tokenKeys(), Token{})
	sameNames(t, quotaKeys(), Quota{})
	sameNames(t, limitKeys(), Limits{})
	sameNames(t, drainKeys(), Drain{})
	sameNames(t, logKeys(), Log{})
	sameNames(t, metricsKeys(), Metrics{})
	sameNames(t, auditKeys(), Audit{})
	sameNames(t, policyKeys(), Policy{})
	sameNames(t, policyRuleKeys(), PolicyRule{})
	sameNames(t, filterKeys(), Filter{})
	sameNames(t, redactionKeys(), Redaction{})
	sameNames(t, resultsKeys(), Results{})
	sameNames(t, serverResultsKeys(), ServerResults{})
}

func sameNames[T any](t *testing.T, keys []key, zero T) {
	t.Helper()
	keyed, tagged := make(map[string]bool), make(map[string]bool)
	for _, k := range keys {
		if keyed[k.name] {
			t.Errorf("%T: two keys %q", zero, k.name)
		}
		keyed[k.name] = true
		if k.doc == "" || !strings.HasSuffix(k.doc, ".") {
			t.Errorf("%T: the key %q is not documented in sentences: %q", zero, k.name, k.doc)
		}
	}
	for f := range reflect.TypeFor[T]().Fields() {
		if tag := f.Tag.Get("json"); tag != "-" && f.IsExported() {
			tagged[tag] = true
		}
	}
	if diff := cmp.Diff(keyed, tagged); diff != "" {
		t.Errorf("%T: keys and fields differ (-keys +fields):\n%s", zero, diff)
	}
}

// TestKeysReachTheirOwnField sets each limit and checks the field: two keys with the same
// field would pass all other tests.
func TestKeysReachTheirOwnField(t *testing.T) {
	for _, k := range limitKeys() {
		t.Run(k.name, func(t *testing.T) {
			text := map[string]string{"a size": "3B", "a duration": "3ns", "a whole number": "3"}[k.form.want]
			parsed, err := Parse("x.yaml", []byte("mcpServers: {}\nlimits: {"+k.name+": "+text+"}\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			limits := reflect.ValueOf(parsed.Limits)
			for i := range limits.NumField() {
				want := int64(0)
				if limits.Type().Field(i).Tag.Get("json") == k.name {
					want = 3
				}
				if got := limits.Field(i).Int(); got != want {
					t.Errorf("%s = %d, want %d", limits.Type().Field(i).Name, got, want)
				}
			}
		})
	}
}

// TestForeignKeysAreForeign checks that no key of another program is also a key of the
// gateway.
func TestForeignKeysAreForeign(t *testing.T) {
	tables := []struct {
		ours   []string
		others []foreignKey
	}{
		{keyNames(configKeys()), foreignConfigKeys()},
		{keyNames(serverKeys()), foreignServerKeys()},
		{keyNames(tokenKeys()), foreignTokenKeys()},
	}
	for _, table := range tables {
		seen := make(map[string]bool)
		for _, name := range table.ours {
			seen[name] = true
		}
		for _, other := range table.others {
			if seen[other.name] || other.about == "" {
				t.Errorf("the key %q stands twice or says nothing", other.name)
			}
			seen[other.name] = true
		}
	}
}
