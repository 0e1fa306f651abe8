// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

// TestConfigs checks the result of parsing valid files.
func TestConfigs(t *testing.T) {
	for _, s := range scripts(t, "configs") {
		t.Run(s.name(), func(t *testing.T) {
			s.enter(t)
			for _, c := range s.cases() {
				got, err := config.Load(c.Name, s.env())
				if err != nil {
					t.Errorf("%s: %v", c.Name, err)
					continue
				}
				s.hold(t, c, dump(t, got))
			}
		})
	}
}

// dump formats a Config without fields that have their zero value.
func dump(t *testing.T, c *config.Config) string {
	t.Helper()
	var out strings.Builder
	for _, note := range c.Notes {
		fmt.Fprintf(&out, "note %v\n", note)
	}
	rest := *c
	rest.Servers = nil
	fmt.Fprintln(&out, pruned(t, rest))
	for _, token := range c.Auth.Tokens {
		fmt.Fprintf(&out, "token of %s: %q\n", token.Principal, token.Value.Reveal())
	}
	for _, s := range c.Servers {
		fmt.Fprintf(&out, "server %s: %s, prefix %q\n%s\n", s.Name, s.Transport(), s.NamePrefix(), pruned(t, s))
		dumpSecrets(&out, "env", s.Env)
		dumpSecrets(&out, "header", s.Headers)
	}
	return out.String()
}

func dumpSecrets(out *strings.Builder, what string, secrets map[string]config.Secret) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		fmt.Fprintf(out, "%s %s: %q\n", what, name, secrets[name].Reveal())
	}
}

// pruned returns a value as JSON, without empty members.
func pruned(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	prune(tree)
	data, err = json.MarshalIndent(tree, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func prune(tree map[string]any) {
	for name, value := range tree {
		if below, ok := value.(map[string]any); ok {
			prune(below)
			if len(below) > 0 {
				continue
			}
			delete(tree, name)
			continue
		}
		if value == nil || reflect.ValueOf(value).IsZero() {
			delete(tree, name)
		}
	}
}

// secrets are the texts that the scripts have in place of secrets.
var secrets = []string{"sesame", "hunter2", "gh-from-env", "literal-token", "token-of-"}

// TestProblemsShowNoSecret searches all output for the secrets.
func TestProblemsShowNoSecret(t *testing.T) {
	for _, folder := range []string{"problems", "configs"} {
		for _, s := range scripts(t, folder) {
			t.Run(folder+"/"+s.name(), func(t *testing.T) {
				s.enter(t)
				for _, c := range s.cases() {
					got, err := config.Parse(c.Name, c.Data, s.env())
					printed := fmt.Sprintf("%v %+v %#v", err, got, got)
					for _, secret := range secrets {
						if strings.Contains(printed, secret) {
							t.Errorf("%s: %q is printed", c.Name, secret)
						}
					}
				}
			})
		}
	}
}
