// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"

	"github.com/signalbox-mcp/signalbox/mux"
)

// function is the function of a tool.
type function = func(ctx context.Context, call *mux.Call) (*mux.Result, error)

// show returns a function with a constant result.
func show(content ...mux.Content) function { return mux.Always(mux.Show(content...)) }

// redDot and silence return the smallest files of their kind.
func redDot() []byte {
	return decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
}

func silence() []byte {
	return decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA==")
}

func decode(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil // the two above are valid
	}
	return data
}

// contentTools respond with each kind of content.
func contentTools() []mux.Item {
	note := mux.TextContents("test://embedded-resource", "text/plain", "This is an embedded resource content.")
	mixed := mux.TextContents("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)
	return []mux.Item{
		mux.Tool{
			Name: "test_simple_text", Description: "Answers with a text.",
			Call: show(mux.Text("This is a simple text response for testing.")),
		},
		mux.Tool{
			Name: "test_image_content", Description: "Answers with an image.",
			Call: show(mux.Image("image/png", redDot())),
		},
		mux.Tool{
			Name: "test_audio_content", Description: "Answers with sound.",
			Call: show(mux.Audio("audio/wav", silence())),
		},
		mux.Tool{
			Name: "test_embedded_resource", Description: "Answers with a resource.",
			Call: show(mux.Embed(note)),
		},
		mux.Tool{
			Name: "test_multiple_content_types", Description: "Answers with a text, an image and a resource.",
			Call: show(mux.Text("Multiple content types test:"), mux.Image("image/png", redDot()), mux.Embed(mixed)),
		},
		mux.Tool{
			Name: "test_error_handling", Description: "Always fails.",
			Call: func(context.Context, *mux.Call) (*mux.Result, error) {
				return nil, mux.Errorf("This tool intentionally returns an error for testing")
			},
		},
		mux.Tool{
			Name: "json_schema_2020_12_tool", Description: "Tool with JSON Schema 2020-12 features",
			InputSchema: schema2020, Call: show(mux.Text("The arguments were taken.")),
		},
		mux.Tool{
			Name: "test_x_mcp_header", Description: "Has an argument that is mirrored to a header.",
			InputSchema: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
			Call:        mux.Bound(sayRegion),
		},
	}
}

type place struct {
	Region string `json:"region"`
}

// sayRegion is called if the header and the argument are equal.
func sayRegion(_ context.Context, _ *mux.Call, in place) (*mux.Result, error) {
	return mux.Say("The region is %q.", in.Region), nil
}

// schema2020 must be listed unmodified.
const schema2020 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object",
		"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false}`
