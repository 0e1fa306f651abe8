// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
)

// The tests of this file iterate over the tables of keys, and so include every new key.

// secretText is a value that must not be shown.
const secretText = "hunter2-hunter2"

// rightValues returns valid values as JSON for each form, by its name in the documents.
func rightValues() map[string][]string {
	return map[string][]string{
		"a string":                          {`"x"`},
		"true or false":                     {`true`, `false`},
		"a duration":                        {`"30s"`, `"1h1m1s"`, `"250ms"`, `"none"`},
		"a size":                            {`"1B"`, `"4MiB"`, `"none"`},
		"a whole number":                    {`1`, `20000`, `"none"`},
		"a list of strings":                 {`[]`, `["x"]`, `["x", "y"]`},
		"a mapping of names to strings":     {`{}`, `{"x": "y"}`},
		"a list of mappings":                {`[]`},
		"a list of secrets":                 {`[]`, `["a secret that has 32 characters."]`},
		"a mapping of names to servers":     {`{}`},
		"a mapping of names to profiles":    {`{}`},
		"a mapping":                         {},
		wantAppsForm:                        {`{}`, `false`, `true`},
		"stdio, http, streamable-http, sse": {`"stdio"`},
		strings.Join(eras(), ", "):          {`"auto"`, `"legacy"`, `"2025-06-18"`},
		"hide, first":                       {`"hide"`, `"first"`},
		"guarded, auto, manual":             {`"guarded"`, `"auto"`, `"manual"`},
		"runner, direct":                    {`"runner"`, `"direct"`},
		"debug, info, warn, error":          {`"debug"`, `"error"`},
		"text, json":                        {`"text"`, `"json"`},
		"principal, all":                    {`"principal"`, `"all"`},
		"a port":                            {`1`, `65535`},
		"user, gateway":                     {`"user"`},
		"code, clientCredentials, exchange, idJag, jwtBearer": {`"code"`},
		"auto, none":                             {`"auto"`, `"none"`},
		"own, shared":                            {`"own"`, `"shared"`},
		"discovered, 2025-03-26":                 {`"discovered"`, `"2025-03-26"`},
		"127.0.0.1, localhost":                   {`"127.0.0.1"`, `"localhost"`},
		"a rate":                                 {`"600/1m"`, `"1/1h1m1.5s"`, `"20/250ms"`},
		"a whole number above zero":              {`1`, `20000`},
		"a mapping of names to lists of strings": {`{}`, `{"x": ["y", "z"]}`},
		"allow, deny":                            {`"allow"`, `"deny"`},
		"untrusted":                              {`"untrusted"`},
		"pass, error, cut":                       {`"pass"`, `"error"`, `"cut"`},
		"a mapping of names to sizes":            {`{}`},
		"refuse, allow":                          {`"refuse"`, `"allow"`},
		"freeze, hold, warn":                     {`"freeze"`, `"hold"`, `"warn"`},
		"hold, allow":                            {`"hold"`, `"allow"`},
		"full, search, auto":                     {`"full"`, `"search"`, `"auto"`},
		"prefixed, own":                          {`"prefixed"`, `"own"`},
		"known, pass":                            {`"known"`, `"pass"`},
	}
}

// special are the keys with a format of the value beyond its type.
func special() map[string][]string {
	return map[string][]string{
		"listen":                              {`"127.0.0.1:1"`, `"[::1]:0"`, `"localhost:65535"`},
		"path":                                {`"/x"`, `"/"`, `"/a/b"`},
		"allowedHosts":                        {`[]`, `["x"]`, `["x:1", "y.example.com"]`},
		"allowedOrigins":                      {`[]`, `["https://x"]`},
		"mcpServers.NAME.url":                 nil, // rejected beside "command"
		"mcpServers.NAME.headers":             {`{}`},
		"auth.tokens[].env":                   nil, // the variable or file must exist
		"auth.tokens[].file":                  nil,
		"mcpServers.NAME.envFile":             nil, // the file must exist
		"auth.tokens[].principal":             nil,
		"auth.tokens[].profiles":              nil, // the profiles must exist
		"profiles.NAME.servers":               {`["a"]`},
		"profiles.NAME.exclude":               {`[]`, `["q"]`, `["q", "z*"]`},
		"mcpServers.NAME.exclude":             {`[]`, `["q"]`, `["q", "z*"]`},
		"mcpServers.NAME.prefix":              {`""`, `"x"`, `"x."`},
		"mcpServers.NAME.command":             {`"x"`, `"/bin/x y"`, `"C:\\x"`},
		"quotas":                              {`[]`, `[{"per": "all", "calls": "1/1s"}, {"per": "principal", "calls": "1/1s"}]`},
		"operators":                           {`"principal.name == 'ops'"`, `"'x' in principal.claims.groups"`},
		"quotas[].on":                         {`["a__*"]`, `["a__x", "file:///x?*", "q"]`},
		"audit.file":                          {`"audit.jsonl"`, `"./x"`},
		"mcpServers.NAME.disabled":            {`false`, `true`},
		"publicURL":                           {`"https://mcp.example.com"`, `"http://localhost:7777"`},
		"pins.ignore":                         {`[]`, `["/_meta/x"]`, `["/_meta/x", "/y"]`},
		"auth.issuers[].name":                 {`"x"`, `"corp-2"`},
		"auth.issuers[].issuer":               {`"https://id.example.com"`, `"https://id.example.com/realms/x/"`, `"http://127.0.0.1:8080"`},
		"auth.issuers[].audience":             {`["x"]`, `["https://mcp.example.com/mcp", "y"]`},
		"auth.issuers[].algorithms":           {`["ES256"]`, `["RS512", "EdDSA"]`},
		"auth.issuers[].principal":            {`"claims.sub"`, `"has(claims.azp) ? claims.azp : claims.sub"`},
		"auth.issuers[].skew":                 {`"1s"`, `"5m"`},
		"auth.issuers[].header":               {`"Authorization"`, `"Cf-Access-Jwt-Assertion"`},
		"auth.issuers[].keys":                 nil, // the file must exist
		"tls":                                 nil, // the files must exist
		"tls.certificate":                     nil,
		"tls.key":                             nil,
		"tls.clientCAs":                       nil,
		"auth.certificates":                   nil, // requires tls.clientCAs
		"auth.certificates.principal":         nil,
		"auth.proxy":                          {`{"from": ["10.0.0.0/28"], "user": "X-Forwarded-User"}`},
		"auth.proxy.from":                     {`["10.0.0.0/28"]`, `["127.0.0.1/32", "fd00::/8", "0.0.0.0/0"]`},
		"auth.proxy.user":                     {`"X-Forwarded-User"`, `"remote_user"`},
		"auth.proxy.groups":                   {`"X-Forwarded-Groups"`},
		"auth.issuers[].introspect":           {`{"clientId": "x", "clientSecret": "y"}`},
		"auth.issuers[].introspect.clientKey": nil, // must be a key
		"auth.browser":                        nil, // requires an issuer
		"auth.browser.issuer":                 {`"x"`},
		"auth.browser.clientKey":              nil, // must be a key

		"policy.rules[].name":    {`"x"`, `"a.b_c-1"`},
		"policy.rules[].allow":   {`"true"`, `"args.x == 1"`},
		"policy.rules[].deny":    {`"!(principal.name == 'x')"`},
		"policy.rules[].needs":   {`["x"]`, `["a:b", "c"]`},
		"policy.rules[].confirm": {`"item.annotations.unknown"`},
		"policy.rules[].when":    {`"item.kind == 'tool'"`},
		"policy.rules[].on":      {`["*"]`, `["a__*", "file:///x*"]`},

		"filters[].on":             {`["*"]`, `["a__*", "file:///x*"]`},
		"filters[].in":             {`"results"`},
		"filters[].redact":         {`[{"match": "x"}]`, `[{"match": "x", "with": "y"}, {"match": "y"}]`},
		"filters[].redact[].match": {`"x"`, `"(?i)\\bx{2,}"`},
		"filters[].refuse":         {`"'x' in args"`},

		"results.max":                 {`"4KiB"`, `"none"`},
		"results.clients":             {`{}`, `{"codex": "8KiB"}`},
		"mcpServers.NAME.results.max": {`"4KiB"`, `"none"`},

		"mcpServers.NAME.headersHelper":                       {`{"command": ["x"]}`},
		"mcpServers.NAME.headersHelper.command":               {`["x"]`, `["x", "y"]`},
		"mcpServers.NAME.oauth":                               {`{}`},
		"mcpServers.NAME.oauth.issuer":                        {`"https://x"`, `"http://127.0.0.1:1/a"`},
		"mcpServers.NAME.oauth.clientKey":                     nil, // must be a key
		"mcpServers.NAME.oauth.assertion":                     nil, // for a grant that needs more
		"mcpServers.NAME.oauth.authorizationServer":           {`{"clientId": "x"}`},
		"mcpServers.NAME.oauth.authorizationServer.issuer":    {`"https://x"`},
		"mcpServers.NAME.oauth.authorizationServer.clientKey": nil, // must be a key
		"mcpServers.NAME.oauth.resource":                      {`"auto"`, `"none"`, `"https://x/y"`, `"urn:x"`},
	}
}

// document returns a config with a value at a path of the documents, and with everything that
// the value depends on.
func document(path, value string) string {
	switch {
	case path == serversKey:
		return fmt.Sprintf(`{"mcpServers": %s}`, value)
	case strings.HasPrefix(path, "mcpServers.NAME."):
		key := strings.TrimPrefix(path, "mcpServers.NAME.")
		switch key {
		case "url":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": %s}}}`, value)
		case "headersHelper":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "headersHelper": %s}}}`, value)
		case "headersHelper.command":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "headersHelper": {"command": %s}}}}`, value)
		case "oauth":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "oauth": %s}}}`, value)
		case "oauth.clientSecret", "oauth.clientKey":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "oauth": {"clientId": "x", %q: %s}}}}`, strings.TrimPrefix(key, "oauth."), value)
		case "headers":
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "headers": %s}}}`, value)
		case "command":
			return fmt.Sprintf(`{"mcpServers": {"a": {"command": %s}}}`, value)
		}
		if helper, ok := strings.CutPrefix(key, "headersHelper."); ok {
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "headersHelper": {"command": ["x"], %q: %s}}}}`, helper, value)
		}
		if key == "oauth.idToken" || key == "oauth.authorizationServer" || strings.HasPrefix(key, "oauth.authorizationServer.") {
			return idJAGDocument(strings.TrimPrefix(key, "oauth."), value)
		}
		if results, ok := strings.CutPrefix(key, "results."); ok {
			return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x", "results": {%q: %s}}}}`, results, value)
		}
		if oauth, ok := strings.CutPrefix(key, "oauth."); ok {
			return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://x", "oauth": {%q: %s}}}}`, oauth, value)
		}
		return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x", %q: %s}}}`, key, value)
	case path == "profiles.NAME.names":
		return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x"}}, "profiles": {"a": {"servers": ["a"], "names": %s}}}`, value)
	case path == "profiles.NAME.extensions":
		return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x"}}, "profiles": {"a": {"servers": ["a"], "names": "own", "extensions": %s}}}`, value)
	case strings.HasPrefix(path, "profiles.NAME."):
		return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x"}}, "profiles": {"a": {%q: %s}}}`, strings.TrimPrefix(path, "profiles.NAME."), value)
	case strings.HasPrefix(path, "quotas[]."):
		key, beside := strings.TrimPrefix(path, "quotas[]."), `"per": "all", "calls": "1/1s"`
		switch key {
		case "per":
			beside = `"calls": "1/1s"`
		case "calls":
			beside = `"per": "all"`
		}
		return fmt.Sprintf(`{"mcpServers": {}, "quotas": [{%s, %q: %s}]}`, beside, key, value)
	case strings.HasPrefix(path, "auth.tokens[]."):
		key := strings.TrimPrefix(path, "auth.tokens[].")
		beside := `"principal": "x"`
		switch key {
		case "principal":
			beside = `"env": "TOKEN"`
		case "profiles":
			beside = `"principal": "x", "env": "TOKEN"`
		}
		return fmt.Sprintf(`{"mcpServers": {}, "auth": {"tokens": [{%s, %q: %s}]}}`, beside, key, value)
	case path == "auth.certificates.principal":
		return fmt.Sprintf(`{"mcpServers": {}, "auth": {"certificates": {"principal": %s}}}`, value)
	case strings.HasPrefix(path, "auth.proxy."):
		key, beside := strings.TrimPrefix(path, "auth.proxy."), ""
		for name, value := range map[string]string{"from": `["10.0.0.0/28"]`, "user": `"X-User"`} {
			if name != key {
				beside += fmt.Sprintf("%q: %s, ", name, value)
			}
		}
		return fmt.Sprintf(`{"mcpServers": {}, "auth": {"proxy": {%s%q: %s}}}`, beside, key, value)
	case strings.HasPrefix(path, "auth.browser."):
		key, beside := strings.TrimPrefix(path, "auth.browser."), ""
		for name, value := range map[string]string{"issuer": `"x"`, "clientId": `"x"`} {
			if name != key {
				beside += fmt.Sprintf("%q: %s, ", name, value)
			}
		}
		return fmt.Sprintf(`{"mcpServers": {}, "publicURL": "https://x", "auth": {"issuers": [{"name": "x", "issuer": "https://x"}], "browser": {%s%q: %s}}}`, beside, key, value)
	case strings.HasPrefix(path, "auth.issuers[].introspect."):
		key := strings.TrimPrefix(path, "auth.issuers[].introspect.")
		beside := `"clientId": "x"`
		if key == "clientId" {
			beside = `"clientSecret": "x"`
		}
		return fmt.Sprintf(`{"mcpServers": {}, "publicURL": "https://x", "auth": {"issuers": [{"name": "x", "issuer": "https://x", "introspect": {%s, %q: %s}}]}}`, beside, key, value)
	case strings.HasPrefix(path, "auth.issuers[]."):
		key := strings.TrimPrefix(path, "auth.issuers[].")
		var beside string
		for _, required := range []string{"name", "issuer"} {
			if required != key {
				beside += fmt.Sprintf("%q: %q, ", required, map[string]string{"name": "x", "issuer": "https://x"}[required])
			}
		}
		return fmt.Sprintf(`{"mcpServers": {}, "publicURL": "https://x", "auth": {"issuers": [{%s%q: %s}]}}`, beside, key, value)
	}
	if key, found := strings.CutPrefix(path, "policy.rules[]."); found {
		beside := `"name": "r"`
		switch key {
		case "name":
			beside = `"allow": "true"`
		case "when", "on":
			beside = `"name": "r", "allow": "true"`
		}
		return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x"}}, "policy": {"otherwise": "deny", "rules": [{%s, %q: %s}]}}`, beside, key, value)
	}
	if key, found := strings.CutPrefix(path, "filters[]."); found {
		return filterDocument(key, value)
	}
	if key, found := strings.CutPrefix(path, "policy."); found && key != "otherwise" {
		return fmt.Sprintf(`{"mcpServers": {}, "policy": {"otherwise": "deny", %q: %s}}`, key, value)
	}
	if section, key, found := strings.Cut(path, "."); found {
		return fmt.Sprintf(`{"mcpServers": {}, %q: {%q: %s}}`, section, key, value)
	}
	return fmt.Sprintf(`{"mcpServers": {}, %q: %s}`, path, value)
}

// filterDocument is document for a key of a filter.
func filterDocument(key, value string) string {
	beside := `"in": "results"`
	switch key {
	case "in":
		beside = `"mark": "untrusted"`
	case "on":
		beside = `"in": "results", "mark": "untrusted"`
	case "refuse":
		beside = `"in": "arguments"`
	case "say":
		beside = `"in": "arguments", "refuse": "true"`
	case "redact[].match":
		key, value = "redact", fmt.Sprintf(`[{"match": %s}]`, value)
	case "redact[].with":
		key, value = "redact", fmt.Sprintf(`[{"match": "x", "with": %s}]`, value)
	}
	if below, found := strings.CutPrefix(key, "redact[]."); found {
		key, value = "redact", fmt.Sprintf(`[{%q: %s}]`, below, value)
	}
	return fmt.Sprintf(`{"mcpServers": {"a": {"command": "x"}}, "filters": [{%s, %q: %s}]}`, beside, key, value)
}

// idJAGDocument is document for a key of the grant idJag.
func idJAGDocument(path, value string) string {
	key, below, isBelow := strings.Cut(path, ".")
	if isBelow {
		beside := `"clientId": "x", `
		if below == "clientId" {
			beside = ""
		}
		value = fmt.Sprintf(`{%s%q: %s}`, beside, below, value)
	}
	beside := `"authorizationServer": {"clientId": "x"}`
	if key == "authorizationServer" {
		beside = `"idToken": "x"`
	}
	return fmt.Sprintf(`{"mcpServers": {"a": {"url": "http://127.0.0.1", "oauth": {"as": "gateway", "grant": "idJag", "issuer": "https://x", "clientId": "x", %s, %q: %s}}}}`, beside, key, value)
}

func allRows() []row { return object(configKeys(), nil).rows("") }

// resolvedSchema returns the schema as editors use it.
func resolvedSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	resolved, err := Schema().Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func schemaTakes(t *testing.T, schema *jsonschema.Resolved, text string) bool {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return schema.Validate(value) == nil
}

// TestEveryKeyTakesItsForm checks that the documents, the schema and the parser agree on the
// values of each key.
func TestEveryKeyTakesItsForm(t *testing.T) {
	t.Chdir(t.TempDir())
	schema := resolvedSchema(t)
	for _, row := range allRows() {
		values, known := special()[row.path]
		if !known {
			if values, known = rightValues()[row.want]; !known {
				t.Errorf("%s: no values of the form %q", row.path, row.want)
			}
		}
		for _, value := range values {
			text := document(row.path, value)
			for _, name := range []string{"x.json", "x.yaml"} {
				if _, err := Parse(name, []byte(text), nil); err != nil {
					t.Errorf("%s as %s: %v", text, name, err)
				}
			}
			if !schemaTakes(t, schema, text) {
				t.Errorf("the schema refuses %s", text)
			}
		}
	}
}

// wrongKinds returns values of every kind. A key accepts at most one of them. Their texts
// must not be shown.
func wrongKinds() map[configfile.Kind]string {
	return map[configfile.Kind]string{
		configfile.Null:    `null`,
		configfile.Bool:    `true`,
		configfile.Integer: `7`,
		configfile.Float:   `7.5`,
		configfile.Text:    `"` + secretText + `"`,
		configfile.List:    `[{"` + secretText + `": 1}]`,
		configfile.Mapping: `{"` + secretText + `": ["` + secretText + `"]}`,
	}
}

// takes reports whether the form of a key is written as a value of kind k.
func takes(want string, k configfile.Kind) bool {
	switch {
	case want == wantAppsForm && k == configfile.Bool:
		return true
	case strings.HasPrefix(want, "a list"):
		return k == configfile.List
	case strings.HasPrefix(want, "a mapping"):
		return k == configfile.Mapping
	case want == "true or false":
		return k == configfile.Bool
	case want == "a port", strings.HasPrefix(want, "a whole number"):
		return k == configfile.Integer
	default:
		return k == configfile.Text
	}
}

// TestEveryKeyRefusesWrongKinds checks for each key and each wrong kind of value that there is
// one problem, at the position of the value, which names the key and what it must be, has a
// hint if that is not obvious, and does not show the value; and that the schema rejects it.
func TestEveryKeyRefusesWrongKinds(t *testing.T) {
	schema := resolvedSchema(t)
	for _, row := range allRows() {
		for k, value := range wrongKinds() {
			if takes(row.want, k) {
				continue
			}
			text := document(row.path, value)
			_, err := Parse("x.json", []byte(text), unionEnv)
			problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
			if len(problems) != 1 {
				t.Errorf("%s: %v, want one problem", text, err)
				continue
			}
			got := problems[0]
			at := strings.LastIndex(text, ": "+value) + len(": ") + 1
			if got.Line != 1 || got.Column != at {
				t.Errorf("%s: %v, want it at 1:%d", text, got, at)
			}
			key := row.path[strings.LastIndexByte(row.path, '.')+1:]
			if !strings.HasPrefix(got.Message, `"`+key+`" must be `) || !strings.HasSuffix(got.Path, key) {
				t.Errorf("%s: %v (path %s), want the key and what it wants", text, got, got.Path)
			}
			if shows := strings.Contains(got.String(), secretText); shows && row.want != "a duration" && row.want != "a size" {
				t.Errorf("%s: %v shows the value", text, got)
			}
			if schemaTakes(t, schema, text) {
				t.Errorf("the schema takes %s", text)
			}
		}
	}
}

// TestEveryKeyOnce checks that each key is rejected if it is repeated, with the line of the
// first.
func TestEveryKeyOnce(t *testing.T) {
	for _, row := range allRows() {
		key := row.path[strings.LastIndexByte(row.path, '.')+1:]
		text := document(row.path, "0")
		member := fmt.Sprintf("%q: 0", key)
		twice := strings.Replace(text, member, member+",\n"+member, 1)
		_, err := Parse("x.json", []byte(twice), nil)
		want := fmt.Sprintf("x.json:2:1: duplicate key %q, first on line 1", key)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", twice, err, want)
		}
	}
}

// TestEveryKeyMisspelt checks that each misspelt key is corrected by a hint. Keys of two or
// three letters are too short for some mistakes, and another key may be as near.
func TestEveryKeyMisspelt(t *testing.T) {
	for _, row := range allRows() {
		key := row.path[strings.LastIndexByte(row.path, '.')+1:]
		for _, slip := range slips(key) {
			text := strings.Replace(document(row.path, "0"), fmt.Sprintf("%q: 0", key), fmt.Sprintf("%q: 0", slip), 1)
			_, err := Parse("x.json", []byte(text), nil)
			unknown := fmt.Sprintf("unknown key %q (", slip)
			hint := fmt.Sprintf("did you mean %q?", key)
			if err == nil || !strings.Contains(err.Error(), unknown) || !strings.Contains(err.Error(), hint) {
				t.Errorf("%s: %v, want %q", text, err, hint)
			}
		}
	}
}

// slips returns typical misspellings: a letter omitted, doubled or swapped, and other styles
// of writing words.
func slips(key string) []string {
	key, dollar := strings.CutPrefix(key, "$")
	if dollar || len(key) < 5 {
		return nil
	}
	middle := len(key) / 2
	all := []string{
		key[:middle] + key[middle+1:],
		key[:middle] + key[middle:middle+1] + key[middle:],
		key[:len(key)-1],
		key + "s",
		strings.ToUpper(key),
	}
	if key[middle] != key[middle-1] {
		all = append(all, key[:middle-1]+key[middle:middle+1]+key[middle-1:middle]+key[middle+1:])
	}
	snake := ""
	for _, letter := range key {
		if 'A' <= letter && letter <= 'Z' {
			snake += "_"
		}
		snake += strings.ToLower(string(letter))
	}
	if snake != key {
		all = append(all, snake, strings.ReplaceAll(snake, "_", "-"))
	}
	return all
}

// TestEveryLimitCanBeNone checks that each limit and time can be "none", which is negative,
// and that defaults do not replace it.
func TestEveryLimitCanBeNone(t *testing.T) {
	for _, row := range allRows() {
		section, key, _ := strings.Cut(row.path, ".")
		if section != "limits" && section != "drain" || key == "" {
			continue
		}
		c, err := Parse("x.json", []byte(document(row.path, `"none"`)), nil)
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		for what, c := range map[string]*Config{"as read": c, "with defaults": c.Effective()} {
			if got := fieldOf(t, c, section, key).Int(); got >= 0 {
				t.Errorf("%s %s: %d, want it negative", row.path, what, got)
			}
		}
	}
}

// fieldOf returns the field of a Config for a key of a section.
func fieldOf(t *testing.T, c *Config, section, key string) reflect.Value {
	t.Helper()
	tagged := func(v reflect.Value, tag string) reflect.Value {
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") == tag {
				return v.Field(i)
			}
		}
		t.Fatalf("%v has no field %q", v.Type(), tag)
		return reflect.Value{}
	}
	return tagged(tagged(reflect.ValueOf(c).Elem(), section), key)
}

// TestEveryDefaultIsDocumented checks that the defaults of an empty Config are the documented
// ones, and that configuring them changes nothing.
func TestEveryDefaultIsDocumented(t *testing.T) {
	empty := (&Config{}).Effective()
	for _, row := range allRows() {
		section, key, _ := strings.Cut(row.path, ".")
		if row.def == "" || section == serversKey || key == "" || strings.HasPrefix(row.path, "auth.issuers[]") {
			continue
		}
		written := row.def
		if !isNumber(written) {
			written = fmt.Sprintf("%q", written)
		}
		c, err := Parse("x.json", []byte(document(row.path, written)), nil)
		if err != nil {
			t.Errorf("%s: its default is refused: %v", row.path, err)
			continue
		}
		got, want := fieldOf(t, c, section, key).Interface(), fieldOf(t, empty, section, key).Interface()
		if got != want {
			t.Errorf("%s: the default is %v in effect, and written down it is %v", row.path, want, got)
		}
	}
}

// TestEffectiveTwice checks that Effective is idempotent.
func TestEffectiveTwice(t *testing.T) {
	c := &Config{
		Limits:  Limits{CallMax: time.Second, Batch: -1},
		Servers: []Backend{{Name: "a", Command: "x"}},
	}
	once := c.Effective()
	twice := once.Effective()
	if !reflect.DeepEqual(once, twice) {
		t.Errorf("once %+v, twice %+v", once, twice)
	}
	if once.Limits.CallMax != time.Second || once.Limits.Batch != -1 || c.Limits.Depth != 0 || c.Servers[0].Era != "" {
		t.Errorf("%+v became %+v", c, once)
	}
}
