// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/config"
)

// followed returns the keys that a reload applies, or that are not read again.
func followed() []string {
	return []string{"$schema", "mcpServers", "reload", "allowUnauthenticated", "instructions", "conflict", "audit"}
}

// differ sets a value different from its zero: in a struct, the first field that can
// be.
func differ(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() && differ(field) {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// Each key is applied by a reload, or a reload that changes it is refused and
// docs/operations.md lists it. Any other key would be changed in the file without
// effect or notice.
func TestReloadKnowsEveryKey(t *testing.T) {
	var refused []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		key := field.Tag.Get("json")
		if key == "-" {
			continue
		}
		var old, next config.Config
		if !differ(reflect.ValueOf(&next).Elem().FieldByIndex(field.Index)) {
			t.Fatalf("%s: not known how to change a %s", key, field.Type)
		}
		switch what := fixedSetting(&old, &next); {
		case what == "" && slices.Contains(followed(), key):
		case what == key:
			refused = append(refused, key)
		default:
			t.Errorf("%s is changed, and the reload is refused for %q", key, what)
		}
	}
	documented := documentedAsFixed(t)
	slices.Sort(documented)
	slices.Sort(refused)
	if diff := cmp.Diff(documented, refused); diff != "" {
		t.Errorf("docs/operations.md names what only a new start can change (-page +code):\n%s", diff)
	}
}

// documentedAsFixed returns the keys that require a restart by docs/operations.md.
func documentedAsFixed(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`changes what only a new start can change \(([^)]*)\)`).FindSubmatch(text)
	if list == nil {
		t.Fatal("docs/operations.md has no such list any more")
	}
	var keys []string
	for _, word := range regexp.MustCompile(`\x60([^\x60]+)\x60`).FindAllSubmatch(list[1], -1) {
		keys = append(keys, string(word[1]))
	}
	return keys
}
