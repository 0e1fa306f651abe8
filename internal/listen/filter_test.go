// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func read(t *testing.T, params string) (listen.Filter, error) {
	t.Helper()
	req, err := mcp.NewRequest("subscriptions/listen", []byte(params))
	if err != nil {
		t.Fatal(err)
	}
	return listen.ParseFilter(&req.Params)
}

func TestRead(t *testing.T) {
	for params, want := range map[string]listen.Filter{
		`{}`:                   {},
		`{"notifications":{}}`: {},
		`{"notifications":{"toolsListChanged":true,"promptsListChanged":false}}`:      {Tools: true},
		`{"notifications":{"promptsListChanged":true,"resourcesListChanged":true}}`:   {Prompts: true, Resources: true},
		`{"notifications":{"resourceSubscriptions":["b","a","b","b"],"taskIds":[]}}`:  {URIs: []string{"b", "a"}, TaskIDs: []string{}},
		`{"notifications":{"taskIds":["2","1","2"],"somethingLater":{"x":1}},"y":[]}`: {TaskIDs: []string{"2", "1"}},
	} {
		got, err := read(t, params)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", params, err, diff)
		}
	}
}

// An invalid filter requests nothing, instead of its valid part.
func TestReadRefuses(t *testing.T) {
	for _, filter := range []string{`[]`, `1`, `"all"`, `{"toolsListChanged":1}`, `{"toolsListChanged":true,"taskIds":"1"}`, `{"resourceSubscriptions":[1]}`} {
		got, err := read(t, `{"notifications":`+filter+`}`)
		refused, ok := errors.AsType[*mcp.Error](err)
		if !ok || refused.Code != mcp.CodeInvalidParams || !cmp.Equal(got, listen.Filter{}) {
			t.Errorf("%s: %+v, %v; want nothing, and that its parameters are invalid", filter, got, err)
		}
	}
}
