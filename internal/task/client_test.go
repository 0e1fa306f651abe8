// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"strings"
	"testing"
)

// A client can be asked for what it has declared, and not for undeclared or invalid
// capabilities.
func TestClientOffer(t *testing.T) {
	const all = "sampling/createMessage elicitation/create roots/list tasks/get tasks/result tasks/list tasks/cancel tasks/update"
	for caps, want := range map[string]string{
		``:             "",
		`{}`:           "",
		`[]`:           "",
		`{"tasks":{}}`: "",
		`{"tasks":{"list":{},"cancel":{},"requests":{}}}`:                                        "",
		`{"tasks":{"requests":{"sampling":{"createMessage":true},"elicitation":{"create":[]}}}}`: "",
		`{"tasks":{"requests":{"tools":{"call":{}}}}}`:                                           "",
		`{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`:                               "sampling/createMessage tasks/get tasks/result",
		`{"tasks":{"requests":{"elicitation":{"create":{}}},"list":{}}}`:                         "elicitation/create tasks/get tasks/result tasks/list",
		`{"tasks":{"cancel":{"x":1},"requests":{"elicitation":{"create":{}}}}}`:                  "elicitation/create tasks/get tasks/result tasks/cancel",
	} {
		offer := ClientOfferOf([]byte(caps))
		var got []string
		for method := range strings.FieldsSeq(all) {
			if offer.Runs(method) || offer.Serves(method) {
				got = append(got, method)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %q, want %q", caps, got, want)
		}
	}
}

func TestCreatedID(t *testing.T) {
	for raw, want := range map[string]string{
		`{"task":{"taskId":"t\u0031","status":"working"}}`: "t1",
		`{"task":{"status":"working"}}`:                    "",
		`{"task":{"taskId":1}}`:                            "",
		`{"task":"t1"}`:                                    "",
		`{"taskId":"t1"}`:                                  "",
		`{"action":"accept"}`:                              "",
	} {
		if got := CreatedID([]byte(raw)); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// Keep keeps the bytes of the kept tasks and all other members.
func TestKeep(t *testing.T) {
	mine := func(id string) bool { return id == "a" || id == "c" }
	for raw, want := range map[string]string{
		`{"tasks":[{"taskId":"a","n":1.0},{"taskId":"b"},{"taskId":"c"}],"nextCursor":"n","x":{}}`: `{"tasks":[{"taskId":"a","n":1.0},{"taskId":"c"}],"nextCursor":"n","x":{}}`,
		`{"tasks":[{"taskId":"b"}]}`: `{"tasks":[]}`,
		`{"tasks":[{"n":1}]}`:        `{"tasks":[]}`,
		`{}`:                         `{"tasks":[]}`,
	} {
		got, err := Keep([]byte(raw), mine)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s (%v), want %s", raw, got, err, want)
		}
	}
	for _, raw := range []string{`[]`, `{"tasks":[1]}`} {
		if got, err := Keep([]byte(raw), mine); err == nil {
			t.Errorf("%s: %s, want an error", raw, got)
		}
	}
}
