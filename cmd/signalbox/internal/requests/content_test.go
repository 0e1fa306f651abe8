// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/control"
)

func TestContentIsShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, json, want string }{
		{"text", `{"type":"text","text":"a\nb"}`, "a\nb"},
		{"image", `{"type":"image","mimeType":"image/png","data":"AAEC"}`, "[image image/png, 3 bytes; --json prints it]"},
		{"audio without a type", `{"type":"audio","data":"AA=="}`, "[audio of unknown type, 1 bytes; --json prints it]"},
		{"link", `{"type":"resource_link","uri":"a:b","name":"n"}`, "[resource n: a:b]"},
		{"text of a resource", `{"type":"resource","resource":{"uri":"a:b","text":"t"}}`, "t"},
		{"bytes of a resource", `{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"AAE="}}`, "[resource a:b, x/y, 2 bytes; --json prints it]"},
		{"a later revision's", `{"type":"hologram"}`, "[hologram; --json prints it]"},
		{"nothing", `{}`, "[a block without a type; --json prints it]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c content
			if err := control.Decode([]byte(tt.json), &c); err != nil {
				t.Fatal(err)
			}
			if got := c.shown(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestContentsBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, json, want, err string }{
		{"text", `{"text":""}`, "", ""},
		{"blob", `{"blob":"aGk="}`, "hi", ""},
		{"no base64", `{"blob":"*"}`, "", "illegal base64 data at input byte 0"},
		{"neither", `{"uri":"a:b"}`, "", "a:b has neither text nor blob"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c contents
			if err := control.Decode([]byte(tt.json), &c); err != nil {
				t.Fatal(err)
			}
			got, err := c.bytes()
			text := ""
			if err != nil {
				text = err.Error()
			}
			if string(got) != tt.want || text != tt.err {
				t.Errorf("got %q, %q; want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
}
