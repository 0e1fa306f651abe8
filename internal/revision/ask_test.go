// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestAsk(t *testing.T) {
	const text, audio = `{"type":"text","text":"a","x-own":1.0}`, `{"type":"audio","data":"AA=="}`
	const resource = `{"type":"resource","resource":{"uri":"cid:audio","blob":"AA=="}}`
	in := func(messages string) string { return `{"messages":[` + messages + `],"maxTokens":10,"x-own":2.0}` }
	for _, tt := range []struct{ name, in, oldest, third string }{
		{"one item", `{"role":"user","content":` + text + `}`, "", ""},
		{"audio", `{"role":"user","content":` + audio + `}`, `{"role":"user","content":` + resource + `}`, ""},
		{"a list of one", `{"role":"user","content":[` + text + `]}`, `{"role":"user","content":` + text + `}`, `{"role":"user","content":` + text + `}`},
		{"a list", `{"role":"user","content":[` + text + `, ` + audio + `],"x":1},{"role":"assistant","content":` + text + `}`,
			`{"role":"user","content":` + text + `,"x":1},{"role":"user","content":` + resource + `,"x":1},{"role":"assistant","content":` + text + `}`,
			`{"role":"user","content":` + text + `,"x":1},{"role":"user","content":` + audio + `,"x":1},{"role":"assistant","content":` + text + `}`},
		{"nothing", `{"role":"user","content":[]},{"role":"user"}`, "", ""},
	} {
		for v, want := range map[mcp.Version]string{
			mcp.V20241105: tt.oldest, mcp.V20250326: tt.third, mcp.V20250618: tt.third, mcp.V20251125: "", mcp.V20260728: "",
		} {
			obj := objectOf(t, in(tt.in))
			params, got := obj.Bytes(), Ask(v, "sampling/createMessage", obj)
			if want == "" {
				if !isSame(got, params) {
					t.Errorf("%s for %s is copied: %s", tt.name, v, got)
				}
				continue
			}
			if string(got) != in(want) || !json.Valid(got) {
				t.Errorf("%s for %s:\n got %s\nwant %s", tt.name, v, got, in(want))
			}
		}
	}
	other := objectOf(t, in(`{"role":"user","content":[`+text+`]}`))
	if got := Ask(mcp.V20241105, "elicitation/create", other); !isSame(got, other.Bytes()) {
		t.Errorf("another question becomes %s", got)
	}
	tools := objectOf(t, `{"tools":[],"messages":[{"role":"user","content":[`+text+`,`+audio+`]}]}`)
	if got := Ask(mcp.V20241105, "sampling/createMessage", tools); !isSame(got, tools.Bytes()) {
		t.Errorf("with tools it becomes %s", got)
	}
}

func objectOf(t *testing.T, text string) *mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestAnswer(t *testing.T) {
	in := func(content string) string {
		return `{"role":"assistant","content":` + content + `,"model":"m","x-own":1.0}`
	}
	for _, tt := range []struct{ name, in, want string }{
		{"one item", `{"type":"text","text":"a"}`, ""},
		{"a list of one", `[ {"type":"image","data":"AA=="} ]`, `{"type":"image","data":"AA=="}`},
		{"text", `[{"type":"text","text":"\"a"},{"type":"text","text":"b"}]`, `{"type":"text","text":"\"a\n\nb"}`},
		{"of several kinds", `[{"type":"text","text":"a"},{"type":"image","data":""}]`, ""},
		{"none", `[]`, ""},
	} {
		for _, v := range revisions() {
			result := []byte(in(tt.in))
			got := Answer(v, "sampling/createMessage", objectOf(t, `{}`), result)
			if tt.want == "" || v >= mcp.V20251125 {
				if !isSame(got, result) {
					t.Errorf("%s for %s is copied: %s", tt.name, v, got)
				}
				continue
			}
			if string(got) != in(tt.want) {
				t.Errorf("%s for %s: got %s, want %s", tt.name, v, got, in(tt.want))
			}
		}
	}
	other := []byte(in(`[]`))
	if got := Answer(mcp.V20241105, "roots/list", objectOf(t, `{}`), other); !isSame(got, other) {
		t.Errorf("another answer becomes %s", got)
	}
	two := []byte(in(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`))
	if got := Answer(mcp.V20241105, "sampling/createMessage", objectOf(t, `{"tools":[]}`), two); !isSame(got, two) {
		t.Errorf("to a question with tools it becomes %s", got)
	}
}

func TestAskError(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		code         int64
		data         string
		legacy       int64
	}{
		{"no roots", "roots/list", mcp.CodeMissingCapability, `{"requiredCapabilities":{"roots":{}}}`, mcp.CodeMethodNotFound},
		{"no sampling", "sampling/createMessage", mcp.CodeMissingCapability, `{"requiredCapabilities":{"sampling":{}}}`, mcp.CodeMethodNotFound},
		{"no tools", "sampling/createMessage", mcp.CodeMissingCapability, `{"requiredCapabilities":{"sampling":{"tools":{}}}}`, mcp.CodeInvalidParams},
		{"no forms", "elicitation/create", mcp.CodeMissingCapability, `{"requiredCapabilities":{"elicitation":{"form":{}}}}`, mcp.CodeInvalidParams},
		{"refused by the user", "sampling/createMessage", -1, ``, -1},
		{"of the gateway", "roots/list", mcp.CodeUnsupported, ``, mcp.CodeUnsupported},
	} {
		in := &mcp.Error{Code: tt.code, Message: "why", Data: json.RawMessage(tt.data)}
		for _, v := range revisions() {
			want := tt.legacy
			if v.Era() == mcp.EraModern {
				want = tt.code
			}
			got := AskError(v, tt.method, in)
			if got.Code != want || got.Message != "why" || string(got.Data) != tt.data {
				t.Errorf("%s for %s: %v %s, want code %d", tt.name, v, got, got.Data, want)
			}
		}
	}
}

func TestBlock(t *testing.T) {
	const (
		audio = `{"type":"audio","data":"AA=="}`
		link  = `{"type":"resource_link","uri":"x:y","name":"n"}`
		text  = `{"type":"text","text":"n: x:y"}`
	)
	for _, tt := range []struct {
		in    string
		first mcp.Version // that knows it
		want  string      // before
	}{
		{audio, mcp.V20250326, `{"type":"resource","resource":{"uri":"cid:audio","blob":"AA=="}}`},
		{link, mcp.V20250618, text},
		{text, mcp.V20241105, text},
		{`"audio"`, mcp.V20241105, `"audio"`},
	} {
		for _, v := range revisions() {
			want := tt.in
			if v < tt.first {
				want = tt.want
			}
			if got := string(Block(v, []byte(tt.in))); got != want {
				t.Errorf("%s for %s: got %s, want %s", tt.in, v, got, want)
			}
		}
	}
}
