// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/signalbox-mcp/signalbox/config"
)

// resolved returns the schema as a validator uses it.
func resolved(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	schema, err := config.Schema().Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestSchemaAcceptsConfigs checks that the schema accepts valid files.
func TestSchemaAcceptsConfigs(t *testing.T) {
	schema := resolved(t)
	for _, s := range scripts(t, "configs") {
		for _, c := range s.cases() {
			if filepath.Ext(c.Name) == ".jsonc" {
				continue // the schema does not apply to comments
			}
			var value any
			if err := yaml.Unmarshal(c.Data, &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %s: %v", s.name(), c.Name, err)
			}
		}
	}
}

// TestSchemaRefuses checks what the schema rejects.
func TestSchemaRefuses(t *testing.T) {
	schema := resolved(t)
	tests := map[string]string{
		"good":                  `{"mcpServers": {"a": {"command": "x"}}}`,
		"no servers":            `{"listen": "127.0.0.1:1"}`,
		"both maps":             `{"mcpServers": {}, "servers": {}}`,
		"unknown key":           `{"mcpServers": {}, "lisen": "x"}`,
		"unknown key of server": `{"mcpServers": {"a": {"command": "x", "comand": "y"}}}`,
		"other program's key":   `{"mcpServers": {"a": {"command": "x", "networkTimeout": "y"}}}`,
		"under the other name":  `{"servers": {"a": {"command": 1}}}`,
		"neither":               `{"mcpServers": {"a": {}}}`,
		"bad server name":       `{"mcpServers": {"a b": {"command": "x"}}}`,
		"number for a string":   `{"mcpServers": {"a": {"command": "x", "args": [1]}}}`,
		"env as a list":         `{"mcpServers": {"a": {"command": "x", "env": ["A=1"]}}}`,
		"timeout without unit":  `{"mcpServers": {"a": {"command": "x", "timeout": 30}}}`,
		"timeout of days":       `{"mcpServers": {"a": {"command": "x", "timeout": "1d"}}}`,
		"unknown type":          `{"mcpServers": {"a": {"url": "https://x/", "type": "ws"}}}`,
		"unknown era":           `{"mcpServers": {"a": {"command": "x", "era": "old"}}}`,
		"string for a boolean":  `{"mcpServers": {"a": {"command": "x", "disabled": "yes"}}}`,
		"string for enabled":    `{"mcpServers": {"a": {"command": "x", "enabled": "yes"}}}`,
		"list of files":         `{"mcpServers": {"a": {"command": "x", "envFile": [".env"]}}}`,
		"size without unit":     `{"mcpServers": {}, "limits": {"requestBody": 4194304}}`,
		"count of zero":         `{"mcpServers": {}, "limits": {"sessions": 0}}`,
		"count in words":        `{"mcpServers": {}, "limits": {"sessions": "many"}}`,
		"token in the file":     `{"mcpServers": {}, "auth": {"tokens": [{"principal": "a", "token": "t"}]}}`,
		"rate without time":     `{"mcpServers": {}, "quotas": [{"per": "all", "calls": "600"}]}`,
		"rate without unit":     `{"mcpServers": {}, "quotas": [{"per": "all", "calls": "600/60"}]}`,
		"quota of a word":       `{"mcpServers": {}, "quotas": [{"per": "user", "calls": "600/1m"}]}`,
		"burst of zero":         `{"mcpServers": {}, "quotas": [{"per": "all", "calls": "600/1m", "burst": 0}]}`,
		"burst without bound":   `{"mcpServers": {}, "quotas": [{"per": "all", "calls": "600/1m", "burst": "none"}]}`,
		"unknown level":         `{"mcpServers": {}, "log": {"level": "loud"}}`,
	}
	for name, text := range tests {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != (name == "good") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := config.Parse("x.json", []byte(text), noEnv); (err == nil) != (name == "good") {
			t.Errorf("%s, by Parse: %v", name, err)
		}
	}
}
