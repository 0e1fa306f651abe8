// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestClientsServed(t *testing.T) {
	ours, a, b := mcp.NewScope("lists", nil), mcp.NewScope("a", noCaller{}), mcp.NewScope("a", noCaller{})
	app := &mcp.Peer{Info: []byte(`{"name":"app"}`)}
	anna, anna2, ben := &mcp.Request{Principal: "anna", Client: app}, &mcp.Request{Principal: "anna", Client: app}, &mcp.Request{Principal: "ben", Client: app}
	tests := []struct {
		name string
		reqs []*mcp.Request
		want clientCount
	}{
		{"nobody", nil, noClient},
		{"the gateway", []*mcp.Request{{Scope: ours}, {Method: methodDiscover}, {Scope: ours}}, noClient},
		{"one session", []*mcp.Request{{Scope: ours}, {Scope: a}, {Scope: a}, {Scope: ours}}, oneClient},
		{"one principal without a session", []*mcp.Request{anna, anna2}, oneClient},
		{"two sessions of one key", []*mcp.Request{{Scope: a}, {Scope: b}}, severalClients},
		{"two sessions, and the first again", []*mcp.Request{{Scope: a}, {Scope: b}, {Scope: a}}, severalClients},
		{"two principals", []*mcp.Request{anna, ben}, severalClients},
		{"two programs", []*mcp.Request{anna, {Principal: "anna", Client: &mcp.Peer{}}}, severalClients},
		{"a session and none", []*mcp.Request{{Scope: a}, anna}, severalClients},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var served clientsServed
			for _, req := range tt.reqs {
				served.note(req)
			}
			if got := served.size(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
