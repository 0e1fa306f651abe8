// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"slices"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func requestOf(t *testing.T, method, params string) *mcp.Request {
	t.Helper()
	req, err := mcp.NewRequest(method, []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func resultOf(t *testing.T, text string) *mcp.Result {
	t.Helper()
	res, err := mcp.NewResult([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// notificationRecorder is a Caller that records its notifications.
type notificationRecorder struct{ params []string }

func (c *notificationRecorder) Notify(_ context.Context, n *mcp.Notification) error {
	c.params = append(c.params, n.Method+" "+string(n.Params.Bytes()))
	return nil
}

func (c *notificationRecorder) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "nobody is asked")
}

func (*notificationRecorder) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func idOf(req *mcp.Request) string {
	for name, value := range jsonscan.Members(req.Params.Bytes()) {
		if name == memberElicitation {
			return string(value)
		}
	}
	return ""
}

// A URL elicitation gets an id, and its client is notified when the server continues.
// Other requests stay unmodified.
func TestURLElicitationsGetIDsAndCompletion(t *testing.T) {
	const url = `{"mode":"url","message":"m","url":"https://x/1"}`
	tests := []struct {
		name, method, params, answer, next string
		named, told                        bool
	}{
		{"done", methodElicit, url, `{"action":"accept"}`, `{"content":[]}`, true, true},
		{"asked for something else", methodElicit, url, `{"action":"accept"}`,
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://x/2"}}}}`, true, true},
		{"asked again", methodElicit, url, `{"action":"accept"}`,
			`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":` + url + `}}}`, true, false},
		{"declined", methodElicit, url, `{"action":"decline"}`, `{"content":[]}`, true, false},
		{"form", methodElicit, `{"mode":"form","message":"m"}`, `{"action":"accept"}`, `{}`, false, false},
		{"no mode", methodElicit, `{"message":"m"}`, `{"action":"accept"}`, `{}`, false, false},
		{"another question", "sampling/createMessage", `{"mode":"url"}`, `{"action":"accept"}`, `{}`, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var open urlElicitations
			asked := requestOf(t, tt.method, tt.params)
			req, answered, err := open.withID(asked)
			if err != nil {
				t.Fatal(err)
			}
			if id := idOf(req); (id != "") != tt.named || !tt.named && req != asked {
				t.Errorf("asked %s", req.Params.Bytes())
			}
			answered(resultOf(t, tt.answer))
			caller := new(notificationRecorder)
			open.notifyComplete(t.Context(), resultOf(t, tt.next), caller)
			var want []string
			if tt.told {
				want = []string{elicitationDone + ` {"elicitationId":` + idOf(req) + `}`}
			}
			if !slices.Equal(caller.params, want) {
				t.Errorf("told %q, want %q", caller.params, want)
			}
			open.notifyComplete(t.Context(), resultOf(t, tt.next), caller)
			if len(caller.params) != len(want) {
				t.Errorf("told again: %q", caller.params)
			}
		})
	}
}

// An existing id is the server's, which reports the completion itself.
func TestURLElicitationKeepsItsID(t *testing.T) {
	var open urlElicitations
	req, answered, err := open.withID(requestOf(t, methodElicit, `{"mode":"url","url":"https://x","elicitationId":"own"}`))
	if err != nil || idOf(req) != `"own"` {
		t.Fatalf("asked %s, %v", req.Params.Bytes(), err)
	}
	answered(resultOf(t, `{"action":"accept"}`))
	caller := new(notificationRecorder)
	if open.notifyComplete(t.Context(), resultOf(t, `{}`), caller); len(caller.params) > 0 {
		t.Errorf("told %q", caller.params)
	}
}

// The input of a legacy client is removed: it would have a meaning for a modern server.
func TestLegacyClientBringsNoState(t *testing.T) {
	const given = `{"name":"x","requestState":"s","inputResponses":{"a":1},"arguments":{"requestState":"s"}}`
	req := requestOf(t, "tools/call", given)
	params, err := stripInput(req)
	if want := `{"name":"x","arguments":{"requestState":"s"}}`; err != nil || string(params.Bytes()) != want {
		t.Errorf("of a legacy client: %s, %v, want %s", params.Bytes(), err, want)
	}
	req.TakesInputRequired = true
	if params, err = stripInput(req); err != nil || string(params.Bytes()) != given {
		t.Errorf("of a modern client: %s, %v", params.Bytes(), err)
	}
}
