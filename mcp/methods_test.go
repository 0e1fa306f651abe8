// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"
)

// For every message of every revision the fields find what routes it: one row for each
// method and each direction. The envelope is in front, to keep the params visible.
func methodMessages() []struct {
	method string
	params string
	want   map[Field]string // the JSON text of each present field
} {
	type fields = map[Field]string
	const prefix = "io.modelcontextprotocol/"
	return []struct {
		method string
		params string
		want   fields
	}{
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}`,
			fields{FieldProtocolVersion: `"2025-11-25"`, FieldCapabilities: `{"roots":{"listChanged":true}}`, FieldClientInfo: `{"name":"c","version":"1"}`}},
		{"notifications/initialized", ``, nil},
		{"ping", `{}`, nil},
		{"server/discover", `{"_meta":{"` + prefix + `protocolVersion":"2026-07-28","` + prefix + `clientInfo":{"name":"c","version":"1"},"` + prefix + `clientCapabilities":{}}}`,
			fields{FieldMeta: `*`, MetaVersion: `"2026-07-28"`, MetaClientInfo: `{"name":"c","version":"1"}`, MetaClientCapabilities: `{}`}},

		{"tools/list", `{"cursor":"MTA="}`, fields{FieldCursor: `"MTA="`}},
		{"tools/call", `{"name":"add","arguments":{"name":"not this one"}}`, fields{FieldName: `"add"`, FieldArguments: `{"name":"not this one"}`}},
		{"tools/call", `{"name":"add","task":{"ttl":60000},"_meta":{"progressToken":7,"` + prefix + `related-task":{"taskId":"t"}}}`,
			fields{FieldName: `"add"`, FieldTask: `{"ttl":60000}`, FieldMeta: `*`, MetaProgressToken: `7`, MetaRelatedTask: `{"taskId":"t"}`}},
		{"tools/call", `{"name":"add","inputResponses":{"q":{"action":"accept"}},"requestState":"sealed"}`,
			fields{FieldName: `"add"`, FieldInputResponses: `{"q":{"action":"accept"}}`, FieldRequestState: `"sealed"`}},

		{"resources/list", `{}`, nil},
		{"resources/templates/list", `{"cursor":""}`, fields{FieldCursor: `""`}},
		{"resources/read", `{"uri":"file:///a b"}`, fields{FieldURI: `"file:///a b"`}},
		{"resources/subscribe", `{"uri":"x:y"}`, fields{FieldURI: `"x:y"`}},
		{"resources/unsubscribe", `{"uri":"x:y"}`, fields{FieldURI: `"x:y"`}},
		{"prompts/list", ``, nil},
		{"prompts/get", `{"name":"greet","arguments":{"language":"fr"}}`, fields{FieldName: `"greet"`, FieldArguments: `{"language":"fr"}`}},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet","title":"G"},"argument":{"name":"language","value":"f"},"context":{"arguments":{}}}`,
			fields{FieldRef: `*`, FieldRefType: `"ref/prompt"`, FieldRefName: `"greet"`, FieldArgument: `{"name":"language","value":"f"}`}},
		{"completion/complete", `{"argument":{"name":"a","value":""},"ref":{"uri":"x:{y}","type":"ref/resource"}}`,
			fields{FieldRef: `*`, FieldRefType: `"ref/resource"`, FieldRefURI: `"x:{y}"`, FieldArgument: `{"name":"a","value":""}`}},
		{"logging/setLevel", `{"level":"warning"}`, fields{FieldLevel: `"warning"`}},
		{"subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:y"]},"_meta":{"` + prefix + `logLevel":"info"}}`,
			fields{FieldNotifications: `{"toolsListChanged":true,"resourceSubscriptions":["x:y"]}`, FieldMeta: `*`, MetaLogLevel: `"info"`}},

		{"elicitation/create", `{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}`, fields{FieldMode: `"form"`}},
		{"elicitation/create", `{"mode":"url","elicitationId":"e","url":"https://x","message":"Go"}`, fields{FieldMode: `"url"`}},
		{"sampling/createMessage", `{"messages":[],"maxTokens":10,"tools":[]}`, fields{FieldTools: `[]`}},
		{"roots/list", ``, nil},
		{"tasks/get", `{"taskId":"t"}`, fields{FieldTaskID: `"t"`}},
		{"tasks/list", `{"cursor":"c"}`, fields{FieldCursor: `"c"`}},
		{"tasks/result", `{"taskId":"t"}`, fields{FieldTaskID: `"t"`}},
		{"tasks/update", `{"taskId":"t","inputResponses":{}}`, fields{FieldTaskID: `"t"`, FieldInputResponses: `{}`}},
		{"tasks/cancel", `{"taskId":"t"}`, fields{FieldTaskID: `"t"`}},

		{"skills/list", `{"cursor":"c"}`, fields{FieldCursor: `"c"`}},
		{"skills/get", `{"uri":"skill://a/SKILL.md"}`, fields{FieldURI: `"skill://a/SKILL.md"`}},
		{"resources/directory/read", `{"uri":"skill://a/b"}`, fields{FieldURI: `"skill://a/b"`}},

		{"notifications/cancelled", `{"requestId":"7","reason":"no \"time\""}`, fields{FieldRequestID: `"7"`, FieldReason: `"no \"time\""`}},
		{"notifications/progress", `{"progressToken":"p","progress":0.5,"total":1,"message":"half"}`, fields{FieldProgressToken: `"p"`, FieldProgress: `0.5`}},
		{"notifications/message", `{"level":"info","logger":"db","data":{"name":"x"}}`, fields{FieldLevel: `"info"`, FieldLogger: `"db"`, FieldData: `{"name":"x"}`}},
		{"notifications/message", `{"_meta":{"` + prefix + `subscriptionId":9},"level":"info","data":null}`,
			fields{FieldMeta: `*`, MetaSubscriptionID: `9`, FieldLevel: `"info"`, FieldData: `null`}},
		{"notifications/tools/list_changed", `{"_meta":{"` + prefix + `subscriptionId":"s"}}`, fields{FieldMeta: `*`, MetaSubscriptionID: `"s"`}},
		{"notifications/resources/list_changed", ``, nil},
		{"notifications/resources/updated", `{"uri":"x:y"}`, fields{FieldURI: `"x:y"`}},
		{"notifications/prompts/list_changed", ``, nil},
		{"notifications/roots/list_changed", ``, nil},
		{"notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`, fields{FieldNotifications: `{"toolsListChanged":true}`}},
		{"notifications/elicitation/complete", `{"elicitationId":"e"}`, nil},
		{"notifications/tasks", `{"taskId":"t","status":"working"}`, fields{FieldTaskID: `"t"`}},
		{"notifications/tasks/status", `{"taskId":"t","status":"working"}`, fields{FieldTaskID: `"t"`}},
		{"acme/own", `{"NAMES":1,"x-name":"y"}`, nil},
	}
}

func TestMethodFields(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range methodMessages() {
		seen[tt.method] = true
		call := `"method":"` + tt.method + `"`
		if tt.params != "" {
			call += `,"params":` + tt.params
		}
		in := []byte(`{"jsonrpc":"2.0","id":1,` + call + `}`)
		if strings.HasPrefix(tt.method, "notifications/") {
			in = []byte(`{"jsonrpc":"2.0",` + call + `}`)
		}
		m, err := Parse(in, Limits{})
		if err != nil || m.Method != tt.method || (m.Kind == KindNotification) != strings.HasPrefix(tt.method, "notifications/") {
			t.Errorf("%s: %v %s, %v", in, m.Kind, m.Method, err)
			continue
		}
		checkFields(t, string(in), &m.Params, tt.want)
		checkAgainstOracle(t, in)
	}
	for _, method := range methods {
		if !seen[method] {
			t.Errorf("%s: no message of this method is in the table", method)
		}
	}
}

// checkFields checks that an object has exactly these fields; "*" is any object.
func checkFields(t *testing.T, in string, o *Object, want map[Field]string) {
	t.Helper()
	for f := FieldName; f < endOfFields; f++ {
		text, has := want[f]
		switch raw := string(o.Raw(f)); {
		case o.Has(f) != has:
			t.Errorf("%s: has %s: %v, want %v", in, f.Key(), o.Has(f), has)
		case text == "*" && strings.HasPrefix(raw, "{"):
		case raw != text:
			t.Errorf("%s: %s is %s, want %s", in, f.Key(), raw, text)
		}
	}
}

// The results of both eras, and the fields that are read from them.
func TestResultFields(t *testing.T) {
	type fields = map[Field]string
	const prefix = "io.modelcontextprotocol/"
	for _, tt := range []struct {
		name, result string
		want         fields
		kind         string
	}{
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"},"instructions":"Be kind."}`,
			fields{FieldProtocolVersion: `"2025-11-25"`, FieldCapabilities: `{}`, FieldServerInfo: `{"name":"s","version":"1"}`, FieldInstructions: `"Be kind."`}, ResultComplete},
		{"server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"` + prefix + `serverInfo":{"name":"s"}}}`,
			fields{FieldResultType: `"complete"`, FieldSupportedVersions: `["2026-07-28"]`, FieldCapabilities: `{}`, FieldMeta: `*`, MetaServerInfo: `{"name":"s"}`}, ResultComplete},
		{"tools/list", `{"tools":[{"name":"a"}],"nextCursor":"n","ttlMs":300000,"cacheScope":"private"}`,
			fields{FieldTools: `[{"name":"a"}]`, FieldNextCursor: `"n"`, FieldTTL: `300000`, FieldCacheScope: `"private"`}, ResultComplete},
		{"tools/call", `{"content":[],"structuredContent":{"tools":1},"isError":true}`,
			fields{FieldContent: `[]`, FieldStructuredContent: `{"tools":1}`, FieldIsError: `true`}, ResultComplete},
		{"input required", `{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}},"requestState":"s"}`,
			fields{FieldResultType: `"input_required"`, FieldInputRequests: `{"q":{"method":"roots/list"}}`, FieldRequestState: `"s"`}, ResultInputRequired},
		{"resources", `{"resources":[],"resourceTemplates":[],"prompts":[]}`,
			fields{FieldResources: `[]`, FieldResourceTemplates: `[]`, FieldPrompts: `[]`}, ResultComplete},
		{"of any other shape", `{"roots":[],"completion":{},"messages":[],"contents":[]}`, nil, ResultComplete},
	} {
		m, err := Parse([]byte(`{"jsonrpc":"2.0","id":"r","result":`+tt.result+`}`), Limits{})
		if err != nil || m.Kind != KindResult {
			t.Errorf("%s: %v, %v", tt.name, m.Kind, err)
			continue
		}
		checkFields(t, tt.name, &m.Result.Object, tt.want)
		if got := m.Result.Type(); got != tt.kind {
			t.Errorf("%s: type %q, want %q", tt.name, got, tt.kind)
		}
		checkAgainstOracle(t, m.Raw)
	}
}

// A rename changes the name in each method that has one, and leaves all other text
// alone.
func TestMethodsAreRenamedInPlace(t *testing.T) {
	for _, tt := range methodMessages() {
		o := parsed(t, tt.params)
		for _, f := range []Field{FieldName, FieldURI, FieldRefName, FieldTaskID, FieldCursor} {
			old := o.Raw(f)
			if old == nil {
				continue
			}
			var e Edit
			e.SetText(f, "renamed")
			want := strings.Replace(tt.params, `:`+string(old), `:"renamed"`, 1)
			if got := string(e.AppendTo(nil, o)); got != want {
				t.Errorf("%s with another %s: %s, want %s", tt.method, f.Key(), got, want)
			}
		}
	}
}
