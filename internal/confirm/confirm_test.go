// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package confirm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/confirm"
	"github.com/signalbox-mcp/signalbox/internal/redact"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A question hides nothing: no character, no escape, and no secret is shown.
func TestQuestion(t *testing.T) {
	secrets := redact.Of("canary-secret")
	for _, tc := range []struct{ title, arguments, want string }{
		{"", ``, "Arguments: none"},
		{"a\nArguments: {}", `{}`, "Title: a\\u000aArguments: {}\nArguments: {}"},
		{"", `{ "\u0072\u006d" : "\u202e" }`, `Arguments: {"rm":"` + "\\u202e" + `"}`},
		{"", `{"x":"` + "\u202e\u200b\u3164\ufe0f\U000e0041\u2800" + `"}`, `Arguments: {"x":"\u202e\u200b\u3164\ufe0f\u{e0041}\u2800"}`},
		{"", `{"a":1,"a":2.50}`, `Arguments: {"a":1,"a":2.50}`},
		{"", `{"k":"canary\u002dsecret"}`, `Arguments: {"k":"[redacted]"}`},
		{"canary-secret", `{}`, "Title: [redacted]"},
		{"", `{"x":"` + strings.Repeat("é", 2000) + `"}`, "é … (1960 more bytes)"},
	} {
		c := confirm.Call{Method: "tools/call", Name: "crm__x", Backend: "crm", Title: tc.title, Arguments: []byte(tc.arguments)}
		req, err := c.Question(secrets)
		if err != nil {
			t.Fatal(err)
		}
		got := messageOf(t, req)
		if !strings.HasPrefix(got, "Call the tool crm__x of the server crm?\n") || !strings.HasSuffix(got, tc.want) && !strings.Contains(got, tc.want+"\n") {
			t.Errorf("%q %s:\n got %q\nwant %q", tc.title, tc.arguments, got, tc.want)
		}
		if len(got) > 3000 {
			t.Errorf("%d bytes", len(got))
		}
	}
}

func messageOf(t *testing.T, req *mcp.Request) string {
	t.Helper()
	var params struct{ Message string }
	if err := json.Unmarshal(req.Params.Bytes(), &params); err != nil {
		t.Fatal(err)
	}
	return params.Message
}

// A call goes on once, by the same rule, in time; the oldest of too many is asked about again.
func TestAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a confirm.Agreed
		keep := func() *confirm.State {
			s, ok := confirm.Open(a.Keep("sure", time.Now().Add(time.Minute), []byte("rest"), true))
			if !ok || string(s.Rest) != "rest" || !s.OfServer {
				t.Fatalf("%+v", s)
			}
			return &s
		}
		s := keep()
		if !a.Take(s, "sure") || a.Take(s, "sure") {
			t.Error("not once")
		}
		if a.Take(keep(), "other") {
			t.Error("by another rule")
		}
		s = keep()
		if time.Sleep(time.Minute); a.Take(s, "sure") {
			t.Error("late")
		}
		first, second := keep(), keep()
		for range 4095 {
			keep()
		}
		if a.Take(first, "sure") || !a.Take(second, "sure") {
			t.Error("the oldest is not the one that is forgotten")
		}
	})
	for _, state := range []string{"", "x", "\x00confirm", fmt.Sprintf("\x00confirmh%025d", 1)} {
		if s, ok := confirm.Open([]byte(state)); ok {
			t.Errorf("%q: %+v", state, s)
		}
	}
}
