// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestClientsServed(t *testing.T) {
	ours, a, b := mcp.NewScope("lists", nil), mcp.NewScope("a", NoCaller{}), mcp.NewScope("a", NoCaller{})
	app := &mcp.Peer{Info: []byte(`{"name":"app"}`)}
	anna, anna2, ben := &mcp.Request{Principal: "anna", Client: app}, &mcp.Request{Principal: "anna", Client: app}, &mcp.Request{Principal: "ben", Client: app}
	tests := []struct {
		name string
		reqs []*mcp.Request
		want ClientCount
	}{
		{"no client", nil, NoClient},
		{"the gateway", []*mcp.Request{{Scope: ours}, {Method: MethodDiscover}, {Scope: ours}}, NoClient},
		{"one session", []*mcp.Request{{Scope: ours}, {Scope: a}, {Scope: a}, {Scope: ours}}, OneClient},
		{"one principal without a session", []*mcp.Request{anna, anna2}, OneClient},
		{"two sessions of one key", []*mcp.Request{{Scope: a}, {Scope: b}}, SeveralClients},
		{"two sessions, and the first again", []*mcp.Request{{Scope: a}, {Scope: b}, {Scope: a}}, SeveralClients},
		{"two principals", []*mcp.Request{anna, ben}, SeveralClients},
		{"two programs", []*mcp.Request{anna, {Principal: "anna", Client: &mcp.Peer{}}}, SeveralClients},
		{"a session and none", []*mcp.Request{{Scope: a}, anna}, SeveralClients},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var served ClientsServed
			for _, req := range tt.reqs {
				served.Note(req)
			}
			if got := served.Size(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
